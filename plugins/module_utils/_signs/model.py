# Copyright: (c) 2026, gpuops.sglang contributors
# GNU General Public License v3.0 or later (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Signatures of models that are not known, not there, not complete or not to be had from the hub."""

from __future__ import annotations

from ansible_collections.gpuops.sglang.plugins.module_utils._signs.signature import sign

# Not what another service answered: a line that holds an address holds one of a hub.
_OF_A_HUB = r"^(?!.*https?://(?!\S{0,300}(?:hugging|\bhf\b|hub|modelscope|/resolve/|/api/models|/raw/|/tree/))).*"
_CA_HINT = (
    "Give the unit the CA bundle of whoever signs on the way (a proxy of the company): REQUESTS_CA_BUNDLE and SSL_CERT_FILE in its environment; "
    "or serve a local copy."
)
_RATE_HINT = "The hub limits requests: set HF_TOKEN in the unit's secret environment and wait some minutes, or serve a local copy."
_NAME_HINT = "Make the host in dist_init_addr resolvable on every node (DNS or /etc/hosts: getent hosts NAME), or give the address itself."
_HOST_HINT = "Set --host to an address of this node or to 0.0.0.0: the name that was given cannot be resolved here (getent hosts NAME)."

_ID_HINT = "The hub has no such model, revision or file: correct the model path or revision; a private model is shown to those with a token only (HF_TOKEN)."

MODEL = (
    sign(
        "unsupported_model",
        ("architecture", "not recognize", "unrecognized model", "model type"),
        r"model architectures? .{0,200}(?:(?:is|are) not supported|failed to be inspected)|does not recognize this architecture"
        r"|unrecognized model in |unsupported (?:model )?architecture(?! .{0,60}(?:GPU|device|sm_))"
        r"|unrecognized configuration class|model type \S+ (?:is )?not supported",
    ),
    sign(
        "remote_code",
        "trust",
        r"trust[_-]remote[_-]code.{0,8}=? ?.?True.{0,4}(?:to (?:allow|remove)|if)|consider setting .{0,2}trust_remote_code"
        r"|(?:pass|set|use|requires?|option|argument|needs?).{0,40}trust[_-]remote[_-]code|contains custom code which must be executed",
    ),
    sign(
        "model_auth_denied",
        ("403", "authorized list", "awaiting", "invalid", "expired", "revoked"),
        r"GatedRepoError.{0,20}403|403 (?:Client Error|Forbidden).{0,120}|(?:not|nor) in the authorized list|awaiting a review"
        r"|invalid (?:user(?:name or password)?|credentials|token).{0,60}(?:hugging|hub|authorization|user access token)"
        r"|user access token.{0,20}(?:expired|revoked)"
        r"|invalid (?:credentials in authorization header|user token)|HTTPError: 401 (?:Client Error|Unauthorized).{0,300}invalid (?:user|credential|token)",
    ),
    # The hub says the same of a private model when no token was sent at all.
    sign("model_auth_denied", "invalid username", r"^invalid username or password", "weak"),
    sign(
        "model_auth_missing",
        ("401", "gated", "authenticated", "log in"),
        _OF_A_HUB + r"401 (?:Client Error|Unauthorized)|GatedRepoError|cannot access gated repo|access a gated repo|access to model \S+ is restricted"
        r"|must (?:have access|be authenticated|log ?in)|make sure you are authenticated",
        yields_to=("model_auth_denied",),
    ),
    sign(
        "hub_unreachable",
        ("429", "too many requests", "rate limit"),
        r"429 Client Error|429 too many requests|(?:hub|hugging|hf\.co|modelscope|https?://).{0,200}(?:too many requests|rate limit)",
        hint=_RATE_HINT,
    ),
    sign(
        "hub_unreachable",
        ("certificate verify failed", "certificate_verify_failed", "sslcertverification"),
        r"certificate verify failed|CERTIFICATE_VERIFY_FAILED|SSLCertVerificationError",
        hint=_CA_HINT,
    ),
    sign(
        "hub_unreachable",
        ("consistency check", "but has size"),
        r"consistency check failed|file should be of size \d+ but has size",
    ),
    sign("hub_unreachable", "thrown while requesting", r"thrown while requesting (?:GET|HEAD|POST)", "weak"),
    sign(
        "rendezvous_timeout",
        ("gai error", "name or service", "name resolution", "getaddrinfo", "nodename nor"),
        r"(?:DistNetworkError|client socket|TCPStore|c10d|init_method|failed to connect to any network address).{0,400}"
        r"(?:gai error|name or service not known|name resolution|getaddrinfo failed|nodename nor)",
        hint=_NAME_HINT,
    ),
    sign(
        "port_in_use",
        ("name or service", "name resolution", "nodename nor", "no address associated"),
        r"^(?:ERROR:? +)?\[Errno -\d\] (?:name or service not known|temporary failure in name resolution|nodename nor|no address associated)",
        hint=_HOST_HINT,
    ),
    sign(
        "hub_unreachable",
        (
            "max retries exceeded",
            "couldn't connect to",
            "cannot connect to",
            "localentrynotfound",
            "cannot reach",
            "name resolution",
            "name or service",
            "network is unreachable",
            "server error",
            "gateway",
            "too many requests",
            "incompleteread",
            "chunkedencoding",
            "complete message body",
            "read timed out",
            "connection broken",
            "requests.exceptions",
            "httpx",
            "httpcore",
            "aiohttp",
            "urllib3",
        ),
        r"max retries exceeded with url|(?:couldn't|could not|cannot|can't) connect to .{0,4}https?://\S*(?:hugging|hf|modelscope|hub)"
        r"|LocalEntryNotFoundError"
        r"|cannot reach https?://|temporary failure in name resolution|name or service not known|(?<!error )network is unreachable"
        r"|(?:429|5\d\d) (?:Client|Server) Error.{0,160}https?://|504 Gateway|IncompleteRead|ChunkedEncodingError|without sending complete message body"
        r"|connection broken|https?.{0,80}read timed out"
        r"|^(?:requests\.exceptions|httpx|httpcore|aiohttp\.\w+|urllib3\.exceptions)\.\w*(?:Timeout|Connect\w*|ProxyError|ReadError"
        r"|MaxRetryError|ProtocolError|SSLError)\b",
    ),
    sign(
        "model_not_found",
        ("404", "repository not found", "repositorynotfound", "revisionnotfound", "entrynotfound"),
        r"404 Client Error|RepositoryNotFoundError|RevisionNotFoundError|EntryNotFoundError|repository not found for url",
        hint=_ID_HINT,
    ),
    sign(
        "model_not_found",
        (
            "valid model identifier",
            "model weights",
            "path_or_model_id",
            "repo id must be",
            "repo_name",
            "does not appear to have a file",
            "valid json file",
            "safetensor",
            "deserializing",
            "model path",
            "no such file",
            "checkpoint",
            "can't load",
            "cannot load",
            "could not load",
            "couldn't load",
            "unable to load",
            "no file named",
            "found in",
            "not found in",
            "hfvalidation",
        ),
        r"is not a (?:local folder|valid model identifier)|cannot find any model weights|incorrect path_or_model_id"
        r"|repo id must (?:be in the form|use alphanumeric)"
        r"|HFValidationError|does not appear to have a file named|config file at .{0,300} is not a valid JSON|error while deserializing"
        r"|MetadataIncompleteBuffer|HeaderTooLarge|InvalidHeader"
        r"|SafetensorError|model path .{0,300} (?:does not|doesn't|not) exist|no such file or directory: .{0,300}(?:config\.json"
        r"|\.safetensors|\.bin|\.gguf|tokenizer|\.index\.json|/models?/)"
        r"|(?:can't|cannot|could ?n[o']t|unable to) load (?:the )?(?:[\w-]+ ){0,2}(?:model|config(?:uration)?|tokenizer|processor|feature extractor|weights"
        r"|checkpoint|vocabulary)(?: file)? (?:for|of|from|at|in)|error no file named|no file named .{0,400} found in"
        r"|\bno (?:\S+ ){0,4}(?:safetensors|weights?|checkpoints?)(?: files?)? (?:were |was |could be )?found (?:in|at|under)"
        r"|(?:some|missing) (?:checkpoint|shard) files"
        r"|checkpoint .{0,200} (?:not found|is missing|does not exist)",
    ),
)
