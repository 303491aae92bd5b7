# Goes through the flows of the key manager with the Python package authlib.
# Environment: PORT of the key manager, CLIENT and SECRET of a client, CA: its certificate.
import html
import os
import re
import time
from urllib.parse import parse_qs, urlsplit

import requests
from authlib.integrations.requests_client import OAuth2Session
from authlib.jose import JsonWebKey, jwt
from authlib.oauth2.rfc7523 import PrivateKeyJWT
from requests.adapters import HTTPAdapter

PORT, CLIENT, SECRET = (os.environ[name] for name in ("PORT", "CLIENT", "SECRET"))
ISSUER, REDIRECT = "https://localhost:9443/oauth2/token", "https://app.example/callback"
SIGN_IN = {"username": "admin", "password": "correct horse battery", "decision": "allow"}


class Here(HTTPAdapter):
    """Sends what is for the issuer's port to the key manager's."""

    def send(self, request, **options):
        request.url = request.url.replace("//localhost:9443", f"//localhost:{PORT}")
        return super().send(request, **{**options, "verify": os.environ["CA"]})


def opened(session):
    session.mount("https://", Here())
    return session


browser = opened(requests.Session())
server = browser.get(f"{ISSUER}/.well-known/openid-configuration").json()
assert server["issuer"] == ISSUER
keys = JsonWebKey.import_key_set(browser.get(server["jwks_uri"]).json())


def session(**options):
    return opened(OAuth2Session(CLIENT, SECRET, token_endpoint=server["token_endpoint"], **options))


# The authorization code grant with PKCE and a nonce.
client = session(scope="openid read", redirect_uri=REDIRECT, code_challenge_method="S256")
verifier = "v" * 43
url, state = client.create_authorization_url(
    server["authorization_endpoint"], code_verifier=verifier, nonce="n"
)
page = browser.get(url)
assert page.status_code == 200
hidden = re.findall(r'type="hidden" name="(.*?)" value="(.*?)"', page.text)
form = {name: html.unescape(value) for name, value in hidden} | SIGN_IN
decided = browser.post(server["authorization_endpoint"], data=form, allow_redirects=False)
assert decided.status_code == 303
callback = decided.headers["location"]
assert parse_qs(urlsplit(callback).query)["iss"] == [ISSUER]
token = client.fetch_token(authorization_response=callback, state=state, code_verifier=verifier)
assert token["scope"] == "openid read"
required = {"iss": {"essential": True, "value": ISSUER}, "aud": {"essential": True, "value": CLIENT}}
claims = jwt.decode(token["id_token"], keys, claims_options=required)
claims.validate()
assert (claims["sub"], claims["nonce"]) == ("admin", "n")
assert client.get(server["userinfo_endpoint"]).json()["preferred_username"] == "admin"

# Refresh, introspection and revocation.
refreshed = client.refresh_token(server["token_endpoint"], refresh_token=token["refresh_token"])
access = refreshed["access_token"]
is_active = lambda: client.introspect_token(server["introspection_endpoint"], token=access).json()["active"]
assert is_active()
assert client.revoke_token(server["revocation_endpoint"], token=access).status_code == 200
assert not is_active()

# The client's own token.
own = session(scope="read").fetch_token(grant_type="client_credentials")
assert own["scope"] == "read"
access_claims = jwt.decode(own["access_token"], keys)
access_claims.validate(now=int(time.time()))
assert (access_claims["iss"], access_claims["sub"]) == (ISSUER, CLIENT)

# A client that authenticates by a key, registered by RFC 7591.
key = JsonWebKey.generate_key("EC", "P-256", {"kid": "k", "alg": "ES256", "use": "sig"}, is_private=True)
metadata = {
    "client_name": "authlib by key",
    "token_endpoint_auth_method": "private_key_jwt",
    "grant_types": ["client_credentials"],
    "jwks": {"keys": [key.as_dict(is_private=False)]},
}
admin = (SIGN_IN["username"], SIGN_IN["password"])
registered = browser.post(server["registration_endpoint"], json=metadata, auth=admin)
assert registered.status_code == 201, registered.text
by_key = opened(
    OAuth2Session(registered.json()["client_id"], key, token_endpoint_auth_method="private_key_jwt")
)
by_key.register_client_auth_method(PrivateKeyJWT(server["token_endpoint"], alg="ES256"))
assert by_key.fetch_token(server["token_endpoint"], grant_type="client_credentials")["access_token"]

print("all flows passed")
