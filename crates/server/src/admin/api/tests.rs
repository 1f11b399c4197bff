//! The description of the interface says what the table of routes does.

use super::is_listed;
use super::openapi::describe;
use super::routes::{Found, ROUTES, find, resource_of};

fn path(text: &str) -> Vec<String> {
    text.split('/').filter(|segment| !segment.is_empty()).map(str::to_owned).collect()
}

#[test]
fn each_route_is_described() {
    let description = describe(ROUTES);
    for route in ROUTES {
        let operation = &description["paths"][route.path][route.method.to_ascii_lowercase()];
        assert_eq!(operation["summary"], route.summary, "{}", route.path);
        assert!(route.summary.ends_with('.'), "{}", route.summary);
        let schema =
            &operation["responses"][route.success.0.to_string()]["content"][route.content_type()]["schema"];
        assert!(schema.is_object() || schema == true, "{schema}");
    }
}

#[test]
fn what_can_be_changed_has_a_revision() {
    let shown = |path| resource_of(ROUTES, path).map(|route| route.path);
    assert_eq!(shown("/v1/exports/reload"), Some("/v1/exports"));
    assert_eq!(shown("/v1/tokens"), Some("/v1/tokens"));
    assert_eq!(shown("/v1/tokens/{name}"), Some("/v1/tokens/{name}"));
    let description = describe(ROUTES);
    for route in ROUTES.iter().filter(|route| !route.is_read_only()) {
        let operation = &description["paths"][route.path][route.method.to_ascii_lowercase()];
        let parameters = operation["parameters"].as_array().unwrap();
        assert!(parameters.iter().any(|parameter| parameter["name"] == "If-Match"), "{}", route.path);
        let resource = resource_of(ROUTES, route.path).unwrap();
        let headers = &description["paths"][resource.path]["get"]["responses"]["200"]["headers"];
        assert!(headers["ETag"].is_object(), "{}", resource.path);
    }
}

#[test]
fn each_reference_has_a_definition() {
    let description = describe(ROUTES);
    let text = description.to_string();
    let references: Vec<&str> =
        text.split("\"$ref\":\"#").skip(1).map(|rest| rest.split('"').next().unwrap()).collect();
    assert!(!references.is_empty());
    for reference in references {
        assert!(description.pointer(reference).is_some(), "{reference} is not defined");
    }
}

#[test]
fn a_request_finds_its_route() {
    assert!(
        matches!(find(ROUTES, "GET", &path("/v1/status")), Found::Route(route, None) if route.path == "/v1/status")
    );
    assert!(matches!(find(ROUTES, "HEAD", &path("/v1/status")), Found::Route(..)));
    let allowed = |method, path: &[String]| match find(ROUTES, method, path) {
        Found::OtherMethods(methods) => methods,
        _ => panic!("{path:?} takes {method}"),
    };
    assert_eq!(allowed("PUT", &path("/v1/status")), "GET, HEAD");
    assert_eq!(allowed("HEAD", &path("/v1/exports/reload")), "POST");
    let of_token = path("/v1/tokens/a");
    assert_eq!(allowed("PATCH", &of_token), "GET, HEAD, DELETE");
    assert!(matches!(find(ROUTES, "DELETE", &of_token), Found::Route(_, Some("a"))));
    assert!(matches!(find(ROUTES, "GET", &path("/v1/status/x")), Found::Nothing));
    assert!(matches!(find(ROUTES, "GET", &path("/")), Found::Nothing));
}

#[test]
fn who_may_connect_is_listed_or_admitted_by_an_export() {
    let listed = |address: &str, networks: Option<&[&str]>| {
        let networks: Option<Vec<ipnet::IpNet>> =
            networks.map(|networks| networks.iter().map(|network| network.parse().unwrap()).collect());
        let by_exports = |client: std::net::IpAddr| client.to_string() == "192.0.2.1";
        is_listed(address.parse().unwrap(), networks.as_deref(), by_exports)
    };
    assert!(listed("127.0.0.1", None) && listed("::1", None) && listed("::ffff:192.0.2.1", None));
    assert!(!listed("192.0.2.2", None));
    let networks: &[&str] = &["10.0.0.0/8", "fd00::/8", "fe80::/64"];
    assert!(listed("10.1.2.3", Some(networks)) && listed("::ffff:10.1.2.3", Some(networks)));
    assert!(listed("fe80:2::1", Some(networks)), "on the link of interface 2");
    assert!(!listed("127.0.0.1", Some(networks)) && !listed("192.0.2.1", Some(networks)));
    assert!(listed("198.51.100.1", Some(&[])));
}
