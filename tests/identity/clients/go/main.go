// Goes through the flows of the key manager with the Go modules golang.org/x/oauth2 and github.com/coreos/go-oidc.
// Environment: PORT of the key manager, CLIENT and SECRET of a client, CA: its certificate.
package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"html"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"strings"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"
	"golang.org/x/oauth2/clientcredentials"
)

const issuer = "https://localhost:9443/oauth2/token"

func main() {
	client := browser()
	ctx := oidc.ClientContext(context.Background(), client)
	id, secret := os.Getenv("CLIENT"), os.Getenv("SECRET")
	provider, err := oidc.NewProvider(ctx, issuer)
	check(err)
	config := oauth2.Config{
		ClientID:     id,
		ClientSecret: secret,
		Endpoint:     provider.Endpoint(),
		RedirectURL:  "https://app.example/callback",
		Scopes:       []string{oidc.ScopeOpenID, "read"},
	}

	// The authorization code grant with PKCE and a nonce.
	verifier := oauth2.GenerateVerifier()
	at := config.AuthCodeURL("s", oidc.Nonce("n"), oauth2.S256ChallengeOption(verifier))
	callback := signIn(client, at)
	require(callback.Get("state") == "s" && callback.Get("iss") == issuer, callback)
	token, err := config.Exchange(ctx, callback.Get("code"), oauth2.VerifierOption(verifier))
	check(err)
	raw, _ := token.Extra("id_token").(string)
	idToken, err := provider.Verifier(&oidc.Config{ClientID: id}).Verify(ctx, raw)
	check(err)
	require(idToken.Subject == "admin" && idToken.Nonce == "n", idToken)
	check(idToken.VerifyAccessToken(token.AccessToken))
	user, err := provider.UserInfo(ctx, oauth2.StaticTokenSource(token))
	check(err)
	require(user.Subject == "admin", user)
	_, err = config.Exchange(ctx, callback.Get("code"), oauth2.VerifierOption(verifier))
	require(err != nil, "a code is used once")

	// Refresh: of a new sign-in, since the second use of the code has ended the first.
	callback = signIn(client, at)
	token, err = config.Exchange(ctx, callback.Get("code"), oauth2.VerifierOption(verifier))
	check(err)
	old := &oauth2.Token{RefreshToken: token.RefreshToken}
	refreshed, err := config.TokenSource(ctx, old).Token()
	check(err)
	require(refreshed.RefreshToken != token.RefreshToken, "it rotates")
	_, err = config.TokenSource(ctx, old).Token()
	require(err != nil, "a refresh token is used once")

	// The client's own token, which is verified by the published keys.
	own := clientcredentials.Config{
		ClientID: id, ClientSecret: secret, TokenURL: provider.Endpoint().TokenURL, Scopes: []string{"read"},
	}
	token, err = own.Token(ctx)
	check(err)
	verified, err := provider.Verifier(&oidc.Config{ClientID: id}).Verify(ctx, token.AccessToken)
	check(err)
	require(verified.Subject == id, verified)

	// A device without a browser. The module sends no secret of its own accord.
	device, err := config.DeviceAuth(ctx, oauth2.SetAuthURLParam("client_secret", secret))
	check(err)
	allowed, err := client.PostForm("https://localhost:9443/oauth2/device", url.Values{
		"user_code": {device.UserCode}, "username": {"admin"},
		"password": {"correct horse battery"}, "decision": {"allow"},
	})
	check(err)
	require(allowed.StatusCode == 200, allowed.Status)
	_, err = config.DeviceAccessToken(ctx, device)
	check(err)

	fmt.Println("all flows passed")
}

// What a browser does with the consent page; returns the parameters of the redirection.
func signIn(client *http.Client, at string) url.Values {
	page, err := client.Get(at)
	check(err)
	text, err := io.ReadAll(page.Body)
	check(err)
	form := url.Values{}
	hidden := regexp.MustCompile(`type="hidden" name="(.*?)" value="(.*?)"`)
	for _, field := range hidden.FindAllStringSubmatch(string(text), -1) {
		form.Set(field[1], html.UnescapeString(field[2]))
	}
	form.Set("username", "admin")
	form.Set("password", "correct horse battery")
	form.Set("decision", "allow")
	decided, err := client.PostForm("https://localhost:9443/oauth2/authorize", form)
	check(err)
	require(decided.StatusCode == 303, decided.Status)
	location, err := decided.Location()
	check(err)
	return location.Query()
}

// Trusts the key manager, and sends to its port what is for the issuer's.
func browser() *http.Client {
	pem, err := os.ReadFile(os.Getenv("CA"))
	check(err)
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(pem)
	dial := func(ctx context.Context, network, address string) (net.Conn, error) {
		port := os.Getenv("PORT")
		return new(net.Dialer).DialContext(ctx, network, strings.Replace(address, ":9443", ":"+port, 1))
	}
	return &http.Client{
		Transport:     &http.Transport{DialContext: dial, TLSClientConfig: &tls.Config{RootCAs: roots}},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}

func require(holds bool, what any) {
	if !holds {
		panic(fmt.Sprint(what))
	}
}
