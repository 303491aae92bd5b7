// Goes through the flows of the key manager with the npm package openid-client.
// Environment: PORT of the key manager, CLIENT and SECRET of a client; NODE_EXTRA_CA_CERTS.
import assert from 'node:assert/strict';
import * as oidc from 'openid-client';

const { PORT, CLIENT, SECRET } = process.env;
const redirect = 'https://app.example/callback';
const here = (url) => String(url).replace('//localhost:9443', `//localhost:${PORT}`);
const send = (url, options) => fetch(here(url), options);
const issuer = new URL('https://localhost:9443/oauth2/token');
const discover = (id, metadata, authentication) =>
  oidc.discovery(issuer, id, metadata, authentication, { [oidc.customFetch]: send });

const config = await discover(CLIENT, SECRET);
assert.equal(config.serverMetadata().issuer, issuer.href);

// The authorization code grant with PKCE and a nonce.
const verifier = oidc.randomPKCECodeVerifier();
const [state, nonce] = [oidc.randomState(), oidc.randomNonce()];
const url = oidc.buildAuthorizationUrl(config, {
  redirect_uri: redirect,
  scope: 'openid read',
  code_challenge: await oidc.calculatePKCECodeChallenge(verifier),
  code_challenge_method: 'S256',
  state,
  nonce,
});
const page = await send(url);
assert.equal(page.status, 200);
const form = new URLSearchParams();
for (const [, name, value] of (await page.text()).matchAll(/type="hidden" name="(.*?)" value="(.*?)"/g)) {
  form.set(name, value);
}
for (const [name, value] of Object.entries({ username: 'admin', password: 'correct horse battery', decision: 'allow' })) {
  form.set(name, value);
}
const action = new URL('/oauth2/authorize', issuer);
const decided = await send(action, { method: 'POST', body: form, redirect: 'manual' });
assert.equal(decided.status, 303);
const callback = new URL(decided.headers.get('location'));
const checks = { pkceCodeVerifier: verifier, expectedState: state, expectedNonce: nonce, idTokenExpected: true };
const tokens = await oidc.authorizationCodeGrant(config, callback, checks);
assert.equal(tokens.claims().sub, 'admin');
assert.equal(tokens.scope, 'openid read');

const user = await oidc.fetchUserInfo(config, tokens.access_token, 'admin');
assert.equal(user.preferred_username, 'admin');
const refreshed = await oidc.refreshTokenGrant(config, tokens.refresh_token);
assert.equal((await oidc.tokenIntrospection(config, refreshed.access_token)).active, true);
await oidc.tokenRevocation(config, refreshed.access_token);
assert.equal((await oidc.tokenIntrospection(config, refreshed.access_token)).active, false);

// The client's own token.
const own = await oidc.clientCredentialsGrant(config, { scope: 'read' });
assert.equal(own.scope, 'read');

// A token for a service on behalf of the user.
const exchange = 'urn:ietf:params:oauth:grant-type:token-exchange';
const exchanged = await oidc.genericGrantRequest(config, exchange, {
  subject_token: (await oidc.refreshTokenGrant(config, refreshed.refresh_token)).access_token,
  subject_token_type: 'urn:ietf:params:oauth:token-type:access_token',
  scope: 'read',
});
assert.equal(exchanged.scope, 'read');

// A device without a browser.
const device = await oidc.initiateDeviceAuthorization(config, { scope: 'openid read' });
const allowed = await send(new URL('/oauth2/device', issuer), {
  method: 'POST',
  body: new URLSearchParams({ user_code: device.user_code, username: 'admin', password: 'correct horse battery', decision: 'allow' }),
});
assert.equal(allowed.status, 200);
const polled = await oidc.pollDeviceAuthorizationGrant(config, { ...device, interval: 0 });
assert.equal(polled.claims().sub, 'admin');

// A client that authenticates by a key, registered by RFC 7591.
const keys = await crypto.subtle.generateKey({ name: 'ECDSA', namedCurve: 'P-256' }, true, ['sign', 'verify']);
const { kty, crv, x, y } = await crypto.subtle.exportKey('jwk', keys.publicKey);
const registered = await send(config.serverMetadata().registration_endpoint, {
  method: 'POST',
  headers: { authorization: `Basic ${btoa('admin:correct horse battery')}`, 'content-type': 'application/json' },
  body: JSON.stringify({
    client_name: 'by key',
    token_endpoint_auth_method: 'private_key_jwt',
    grant_types: ['client_credentials'],
    jwks: { keys: [{ kty, crv, x, y, alg: 'ES256', use: 'sig', kid: 'k' }] },
  }),
});
assert.equal(registered.status, 201);
const { client_id } = await registered.json();
const byKey = await discover(client_id, undefined, oidc.PrivateKeyJwt({ key: keys.privateKey, kid: 'k' }));
assert.ok((await oidc.clientCredentialsGrant(byKey)).access_token);

// Tokens bound to a key.
const DPoP = oidc.getDPoPHandle(config, await oidc.randomDPoPKeyPair());
const bound = await oidc.clientCredentialsGrant(config, { scope: 'read' }, { DPoP });
assert.equal(bound.token_type, 'dpop');
assert.ok((await oidc.tokenIntrospection(config, bound.access_token)).cnf.jkt);

console.log('all flows passed');
