import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import com.nimbusds.jose.JOSEObjectType;
import com.nimbusds.jose.proc.DefaultJOSEObjectTypeVerifier;
import java.security.interfaces.RSAPublicKey;
import java.time.Instant;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.springframework.beans.factory.annotation.Value;
import org.springframework.boot.SpringApplication;
import org.springframework.boot.autoconfigure.EnableAutoConfiguration;
import org.springframework.boot.autoconfigure.condition.ConditionalOnProperty;
import org.springframework.boot.SpringBootConfiguration;
import org.springframework.cloud.gateway.route.RouteLocator;
import org.springframework.cloud.gateway.route.builder.BooleanSpec;
import org.springframework.cloud.gateway.route.builder.RouteLocatorBuilder;
import org.springframework.context.annotation.Bean;
import org.springframework.http.MediaType;
import org.springframework.security.config.web.server.ServerHttpSecurity;
import org.springframework.security.oauth2.core.OAuth2AuthenticatedPrincipal;
import org.springframework.security.oauth2.core.OAuth2TokenIntrospectionClaimNames;
import org.springframework.security.oauth2.jwt.JwtValidators;
import org.springframework.security.oauth2.jwt.NimbusReactiveJwtDecoder;
import org.springframework.security.oauth2.jwt.ReactiveJwtDecoder;
import org.springframework.security.oauth2.server.resource.introspection.ReactiveOpaqueTokenIntrospector;
import org.springframework.security.oauth2.server.resource.introspection.SpringReactiveOpaqueTokenIntrospector;
import org.springframework.security.web.server.SecurityWebFilterChain;
import org.springframework.web.reactive.function.client.WebClient;
import reactor.core.publisher.Mono;

/**
 * The parts of Spring Cloud Gateway that are configured by code: JWTs of type `at+jwt`, a cache of introspected tokens, and
 * bodies that are rewritten.
 */
@SpringBootConfiguration(proxyBeanMethods = false)
@EnableAutoConfiguration
public class Gateway {
  public static void main(String[] arguments) {
    SpringApplication.run(Gateway.class, arguments);
  }

  @Bean
  RouteLocator routes(
      RouteLocatorBuilder routes,
      ObjectMapper json,
      @Value("${lab.backend}") String backend,
      @Value("${lab.template}") boolean template,
      @Value("${lab.routing:}") String routing) {
    return routes
        .routes()
        .route(
            "echo",
            route ->
                routed(route.path("/**"), routing)
                    .filters(
                        filters ->
                            template
                                ? filters.modifyResponseBody(
                                    JsonNode.class,
                                    JsonNode.class,
                                    MediaType.APPLICATION_JSON_VALUE,
                                    (exchange, body) -> Mono.just(rewritten(json, body)))
                                : filters)
                    .uri(backend))
        .build();
  }

  /** Restricts the route to a value of the header field `routing`, a regular expression, unless it is empty. */
  private static BooleanSpec routed(BooleanSpec route, String routing) {
    return routing.isEmpty() ? route : route.and().header("routing", routing);
  }

  private static JsonNode rewritten(ObjectMapper json, JsonNode body) {
    ObjectNode rewritten = json.createObjectNode();
    rewritten.set("payload", body.get("payload"));
    rewritten.set("size", body.get("size"));
    return rewritten;
  }

  @Bean
  @ConditionalOnProperty("lab.issuer")
  SecurityWebFilterChain secured(ServerHttpSecurity http) {
    return http.csrf(ServerHttpSecurity.CsrfSpec::disable)
        .authorizeExchange(exchanges -> exchanges.anyExchange().authenticated())
        .oauth2ResourceServer(server -> server.jwt(jwt -> {}))
        .build();
  }

  @Bean
  @ConditionalOnProperty("lab.introspection")
  SecurityWebFilterChain introspected(ServerHttpSecurity http) {
    return http.csrf(ServerHttpSecurity.CsrfSpec::disable)
        .authorizeExchange(exchanges -> exchanges.anyExchange().authenticated())
        .oauth2ResourceServer(server -> server.opaqueToken(token -> {}))
        .build();
  }

  /** Each token is introspected once, and valid until it expires. */
  @Bean
  @ConditionalOnProperty("lab.introspection")
  ReactiveOpaqueTokenIntrospector introspector(@Value("${lab.introspection}") String url) {
    ReactiveOpaqueTokenIntrospector server =
        new SpringReactiveOpaqueTokenIntrospector(url, WebClient.create());
    Map<String, OAuth2AuthenticatedPrincipal> known = new ConcurrentHashMap<>();
    return token -> {
      OAuth2AuthenticatedPrincipal principal = known.get(token);
      if (principal != null && isValid(principal)) {
        return Mono.just(principal);
      }
      return server
          .introspect(token)
          .doOnNext(
              found -> {
                if (known.size() >= 8192) {
                  known.clear();
                }
                known.put(token, found);
              });
    };
  }

  private static boolean isValid(OAuth2AuthenticatedPrincipal principal) {
    Instant expires = principal.getAttribute(OAuth2TokenIntrospectionClaimNames.EXP);
    return expires == null || expires.isAfter(Instant.now());
  }

  @Bean
  @ConditionalOnProperty("lab.issuer")
  ReactiveJwtDecoder decoder(
      @Value("${lab.key}") RSAPublicKey key, @Value("${lab.issuer}") String issuer) {
    NimbusReactiveJwtDecoder decoder =
        NimbusReactiveJwtDecoder.withPublicKey(key)
            .jwtProcessorCustomizer(
                processor ->
                    processor.setJWSTypeVerifier(
                        new DefaultJOSEObjectTypeVerifier<>(
                            JOSEObjectType.JWT, new JOSEObjectType("at+jwt"), null)))
            .build();
    decoder.setJwtValidator(JwtValidators.createDefaultWithIssuer(issuer));
    return decoder;
  }
}
