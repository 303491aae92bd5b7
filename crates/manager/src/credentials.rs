//! Who sends a request: the only module that reads the credentials of clients, and those of users in HTTP Basic.
//!
//! A client form-encodes its id and secret before they go into HTTP Basic (RFC 6749 section 2.3.1), a user does not
//! (RFC 7617). Where both are allowed, the decoded name is looked up among the clients first.
//!
//! Architecture invariant: a failure of a client never slows a user, nor does that of a name that neither has.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use http::HeaderMap;
use http::header::AUTHORIZATION;
use store::{Client, User};

use crate::attempts::{Who, network};
use crate::form::{Form, decoded};
use crate::manager::{Checked, Manager, is_name, log_failure};
use crate::peer::Peer;
use crate::reply::Refusal;
use crate::secrets;

const TWO_METHODS: Refusal = Refusal::InvalidRequest("more than one method to authenticate");
const TWO_IDS: Refusal = Refusal::InvalidRequest("two different client ids");

/// Who sends a request.
pub(crate) enum Sender {
    Client(Client),
    User(User),
}

/// Name and password of HTTP Basic, as they were sent.
struct Login {
    name: String,
    password: String,
}

impl Login {
    /// `None` without an Authorization field.
    fn read(head: &HeaderMap) -> Result<Option<Self>, Refusal> {
        let malformed =
            || Refusal::InvalidRequest("the Authorization field is not valid HTTP Basic");
        let mut fields = head.get_all(AUTHORIZATION).iter();
        let Some(field) = fields.next() else { return Ok(None) };
        let encoded = field.to_str().ok().filter(|_| fields.next().is_none());
        let (scheme, encoded) =
            encoded.and_then(|text| text.split_once(' ')).ok_or_else(malformed)?;
        if !scheme.eq_ignore_ascii_case("basic") {
            return Err(malformed());
        }
        let bytes = BASE64_STANDARD.decode(encoded.trim()).map_err(|_| malformed())?;
        let text = String::from_utf8(bytes).map_err(|_| malformed())?;
        let (name, password) = text.split_once(':').ok_or_else(malformed)?;
        Ok(Some(Self { name: name.to_owned(), password: password.to_owned() }))
    }

    /// The id and secret of a client. `None` if they are not form-encoded UTF-8, or have control characters.
    fn of_client(&self) -> Option<(String, String)> {
        Some((decoded(&self.name)?, decoded(&self.password)?))
    }
}

/// The credentials in a request.
enum Presented<'a> {
    Basic(Login),
    /// `client_id` and `client_secret`.
    Secret(&'a str, &'a str),
    Assertion(&'a str),
    /// `client_id` alone: of a client with a certificate, or of a public one.
    Id(&'a str),
    Nothing,
}

impl<'a> Presented<'a> {
    /// Source: RFC 6749 section 2.3: at most one method in each request.
    fn read(head: &HeaderMap, form: &'a Form) -> Result<Self, Refusal> {
        let [id, secret, assertion] =
            ["client_id", "client_secret", "client_assertion"].map(|name| form.get(name));
        match (Login::read(head)?, secret, assertion) {
            (Some(login), None, None) => Ok(Self::Basic(login)),
            (None, None, Some(assertion)) => Ok(Self::Assertion(assertion)),
            (None, Some(secret), None) => {
                Ok(id.map_or(Self::Nothing, |id| Self::Secret(id, secret)))
            }
            (None, None, None) => Ok(id.map_or(Self::Nothing, Self::Id)),
            (Some(_), Some(_), _) | (Some(_), _, Some(_)) | (None, Some(_), Some(_)) => {
                Err(TWO_METHODS)
            }
        }
    }
}

impl Manager {
    /// The client that sends the request, as [`Self::client`], or, if it is public, by its id alone. Source: RFC 6749
    /// section 3.2.1.
    pub(crate) async fn client_or_public(
        &self,
        head: &HeaderMap,
        form: &Form,
        peer: &Peer,
    ) -> Result<Client, Refusal> {
        let presented = Presented::read(head, form)?;
        if let Presented::Id(id) = presented
            && let Some(client) = self.known_client(id).await?.filter(Client::is_public)
        {
            return Ok(client);
        }
        self.authenticated(presented, form, peer).await
    }

    /// The client that sends the request, by HTTP Basic, by parameters, by an assertion or by its certificate. Source:
    /// RFC 6749 section 2.3.1, RFC 7521 section 4.2, RFC 8705 section 2.
    pub(crate) async fn client(
        &self,
        head: &HeaderMap,
        form: &Form,
        peer: &Peer,
    ) -> Result<Client, Refusal> {
        self.authenticated(Presented::read(head, form)?, form, peer).await
    }

    /// The client who sends the request, or the user, if HTTP Basic does not name a client.
    pub(crate) async fn client_or_user(
        &self,
        head: &HeaderMap,
        form: &Form,
        peer: &Peer,
    ) -> Result<Sender, Refusal> {
        let presented = Presented::read(head, form)?;
        if let Presented::Basic(login) = &presented
            && self.client_of(login).await?.is_none()
        {
            return self.user_or_unknown(login, peer).await.map(Sender::User);
        }
        self.authenticated(presented, form, peer).await.map(Sender::Client)
    }

    /// The administrator who sends the request, by HTTP Basic.
    pub(crate) async fn admin(&self, head: &HeaderMap, peer: &Peer) -> Result<String, Refusal> {
        let user = self.user(head, peer).await?;
        const WHY: Refusal = Refusal::Forbidden("only an administrator may do this");
        if user.admin { Ok(user.name) } else { Err(WHY) }
    }

    /// The user who sends the request, by HTTP Basic. Source: RFC 7617. A client is not one, and is not counted as one.
    pub(crate) async fn user(&self, head: &HeaderMap, peer: &Peer) -> Result<User, Refusal> {
        let login = Login::read(head)?.ok_or(Refusal::InvalidUser)?;
        let is_user = is_name(&login.name) && self.store.user(&login.name).await?.is_some();
        if !is_user && self.client_of(&login).await?.is_some() {
            let presented = Presented::Basic(login);
            return match self.authenticated(presented, &Form::default(), peer).await {
                Ok(_) | Err(Refusal::InvalidClient) => Err(Refusal::InvalidUser),
                Err(other) => Err(other),
            };
        }
        self.user_or_unknown(&login, peer).await
    }

    async fn authenticated(
        &self,
        presented: Presented<'_>,
        form: &Form,
        peer: &Peer,
    ) -> Result<Client, Refusal> {
        match presented {
            Presented::Basic(login) => {
                let (id, secret) = login.of_client().ok_or(Refusal::InvalidClient)?;
                if form.get("client_id").is_some_and(|other| other != id) {
                    return Err(TWO_IDS);
                }
                self.client_by_secret(&id, &secret, peer).await
            }
            Presented::Secret(id, secret) => self.client_by_secret(id, secret, peer).await,
            Presented::Assertion(assertion) => {
                self.client_by_assertion(form, assertion, peer).await
            }
            Presented::Id(id) if is_name(id) && !peer.certificates.is_empty() => {
                match self.store.client(id).await? {
                    Some(client) if self.has_certificate_of(&client, peer) => Ok(client),
                    client => Err(self.wrong_client(id, client.is_some(), peer).await),
                }
            }
            Presented::Id(_) | Presented::Nothing => Err(Refusal::InvalidClient),
        }
    }

    async fn client_by_secret(
        &self,
        id: &str,
        secret: &str,
        peer: &Peer,
    ) -> Result<Client, Refusal> {
        let client = self.known_client(id).await?;
        // An unknown client takes as long as a wrong secret. A public one has no secret that matches.
        let expected = client.as_ref().map_or("", |client| client.secret.as_str());
        let right = secrets::matches(secret, expected);
        match client {
            // A secret cannot be guessed, so a right one is accepted however many wrong ones others send.
            Some(client) if right => Ok(client),
            client => Err(self.wrong_client(id, client.is_some(), peer).await),
        }
    }

    async fn known_client(&self, id: &str) -> Result<Option<Client>, Refusal> {
        if is_name(id) { Ok(self.store.client(id).await?) } else { Ok(None) }
    }

    async fn client_of(&self, login: &Login) -> Result<Option<Client>, Refusal> {
        match login.of_client() {
            Some((id, _)) => self.known_client(&id).await,
            None => Ok(None),
        }
    }

    /// Counts and logs a failed attempt to authenticate as the client `id`. One that does not exist is not written to
    /// the store: anybody can invent many.
    pub(crate) async fn wrong_client(&self, id: &str, exists: bool, peer: &Peer) -> Refusal {
        let who = [Who::Client(id, network(peer.address))];
        let begun = if exists { self.begin(&who).await } else { self.begin_here(&who) };
        if let Err(slowed) = begun {
            return slowed;
        }
        if exists {
            self.failed(&who).await;
        }
        log_failure("client", exists.then_some(id), peer);
        Refusal::InvalidClient
    }

    /// The user of HTTP Basic. A name that no user has may be that of a client that was removed: it counts apart, so
    /// that it slows no sign-in from its address.
    async fn user_or_unknown(&self, login: &Login, peer: &Peer) -> Result<User, Refusal> {
        let Login { name, password } = login;
        if !Self::may_be_login(name, password) {
            return Err(Refusal::InvalidUser);
        }
        let network = network(peer.address);
        let (account, user) = (Who::Account(name, network), Who::User(name));
        let (address, unknown) = (Who::Address(network), Who::Unknown(network));
        let who = [account, user, address, unknown];
        self.begin(&who).await?;
        let checked = self.checked(name, password, peer).await;
        match checked.inspect_err(|_| self.attempts.withdrawn(&who))? {
            Checked::Right(user) => {
                self.succeeded(&who).await;
                if user.one_time_until_s > 0 {
                    return Err(Refusal::OneTimePassword);
                }
                Ok(user)
            }
            Checked::Wrong(Some(known)) => {
                self.attempts.withdrawn(&[unknown]);
                self.failed(&[account, user, address]).await;
                log_failure("user", Some(&known), peer);
                Err(Refusal::InvalidUser)
            }
            Checked::Wrong(None) => {
                self.attempts.withdrawn(&[address]);
                self.failed(&[unknown]).await;
                log_failure("user or client", None, peer);
                Err(Refusal::InvalidUser)
            }
        }
    }
}
