//! OpenLDAP's server with a small directory, started for a test from the Debian package.

use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;

use harness::Identity;
use tempfile::TempDir;

pub(crate) const SUFFIX: &str = "dc=example,dc=org";

/// A bind as an entry without a password is admitted, as anonymous: a key manager that tried would take it for a
/// sign-in. `memberOf` is an attribute like any other here.
const CONFIGURATION: &str = r#"
include /etc/ldap/schema/core.schema
include /etc/ldap/schema/cosine.schema
include /etc/ldap/schema/inetorgperson.schema
attributetype ( 1.2.840.113556.1.2.102 NAME 'memberOf' EQUALITY distinguishedNameMatch
  SYNTAX 1.3.6.1.4.1.1466.115.121.1.12 )
objectclass ( 1.2.840.113556.1.5.6 NAME 'member' SUP top AUXILIARY MAY ( memberOf ) )
modulepath /usr/lib/ldap
moduleload back_mdb
allow bind_anon_dn
TLSCertificateFile tls.crt
TLSCertificateKeyFile tls.key
database mdb
suffix "dc=example,dc=org"
rootdn "cn=root,dc=example,dc=org"
rootpw root-secret
directory data
maxsize 10485760
access to attrs=userPassword by anonymous auth by * none
access to * by dn.exact="cn=penstock,dc=example,dc=org" read by * none
"#;

/// Ann is in two groups, one of them by its DN alone; Bob has no groups. `admin` is not the user of the key manager.
const ENTRIES: &str = "\
dn: dc=example,dc=org
objectClass: dcObject
objectClass: organization
o: Example
dc: example

dn: ou=people,dc=example,dc=org
objectClass: organizationalUnit
ou: people

dn: ou=groups,dc=example,dc=org
objectClass: organizationalUnit
ou: groups

dn: cn=penstock,dc=example,dc=org
objectClass: organizationalRole
objectClass: simpleSecurityObject
cn: penstock
userPassword: search-secret

dn: uid=ann,ou=people,dc=example,dc=org
objectClass: inetOrgPerson
objectClass: member
uid: ann
cn: Ann Example
sn: Example
mail: ann@example.org
mail: other@example.org
memberOf: cn=Operators,ou=groups,dc=example,dc=org
userPassword: ann's password

dn: uid=bob,ou=people,dc=example,dc=org
objectClass: inetOrgPerson
uid: bob
cn: Bob (the builder)*
sn: Example
userPassword: bob's password

dn: uid=admin,ou=people,dc=example,dc=org
objectClass: inetOrgPerson
uid: admin
cn: Somebody
sn: Else
userPassword: admin's password

dn: uid=no/body,ou=people,dc=example,dc=org
objectClass: inetOrgPerson
uid: no/body
cn: Nobody
sn: Nobody
userPassword: nobody's password

dn: cn=Operators,ou=groups,dc=example,dc=org
objectClass: groupOfNames
cn: Operators
member: uid=ann,ou=people,dc=example,dc=org

dn: cn=Readers,ou=groups,dc=example,dc=org
objectClass: groupOfNames
cn: Readers
member: uid=ann,ou=people,dc=example,dc=org
member: uid=admin,ou=people,dc=example,dc=org
";

pub(crate) struct Slapd {
    folder: TempDir,
    pub(crate) identity: Identity,
    pub(crate) port: u16,
    pub(crate) tls_port: u16,
    running: Option<Child>,
}

impl Slapd {
    pub(crate) fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let identity = Identity::of(&["localhost", "127.0.0.1"]);
        let write =
            |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
        write("tls.crt", &identity.cert_pem);
        write("tls.key", &identity.key_pem);
        write("slapd.conf", CONFIGURATION);
        write("entries.ldif", ENTRIES);
        std::fs::create_dir(folder.path().join("data")).unwrap();
        run(folder.path(), "/usr/sbin/slapadd", &["-f", "slapd.conf", "-l", "entries.ldif"]);
        let port = || TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let mut server = Self { identity, port: port(), tls_port: port(), running: None, folder };
        server.restart();
        server
    }

    pub(crate) fn restart(&mut self) {
        let urls = format!("ldap://127.0.0.1:{} ldaps://127.0.0.1:{}", self.port, self.tls_port);
        let mut command = Command::new("/usr/sbin/slapd");
        command.args(["-f", "slapd.conf", "-h", &urls, "-d", "0"]);
        command.current_dir(self.folder.path()).stdout(Stdio::null()).stderr(Stdio::null());
        self.running = Some(command.spawn().expect("slapd is installed"));
        for port in [self.port, self.tls_port] {
            while TcpStream::connect(("127.0.0.1", port)).is_err() {
                thread::yield_now();
            }
        }
    }

    pub(crate) fn kill(&mut self) {
        let mut running = self.running.take().unwrap();
        running.kill().unwrap();
        running.wait().unwrap();
    }

    /// Changes the directory by records of LDIF.
    pub(crate) fn modify(&self, records: &str) {
        std::fs::write(self.folder.path().join("change.ldif"), records).unwrap();
        let url = format!("ldap://127.0.0.1:{}", self.port);
        let root = format!("cn=root,{SUFFIX}");
        let login = ["-x", "-H", &url, "-D", &root, "-w", "root-secret"];
        run(self.folder.path(), "ldapmodify", &[&login[..], &["-f", "change.ldif"]].concat());
    }

    /// Whether the server admits a bind as the entry `dn` with this password.
    pub(crate) fn admits(&self, dn: &str, password: &str) -> bool {
        let url = format!("ldap://127.0.0.1:{}", self.port);
        let mut command = Command::new("ldapwhoami");
        command.args(["-x", "-H", &url, "-D", dn, "-w", password]);
        command.stdout(Stdio::null()).stderr(Stdio::null()).status().unwrap().success()
    }
}

impl Drop for Slapd {
    fn drop(&mut self) {
        if self.running.is_some() {
            self.kill();
        }
    }
}

fn run(folder: &Path, program: &str, arguments: &[&str]) {
    let output = Command::new(program).args(arguments).current_dir(folder).output();
    let output = output.expect("slapd and ldap-utils are installed");
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} {arguments:?}: {text}");
}
