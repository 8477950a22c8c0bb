"""Passwords are taken out of everything that is shown: descriptions of sources and targets, errors, what Spark says."""

from __future__ import annotations

import traceback

import pytest

from substrait_agg.changes.targets import parse_target
from substrait_agg.redaction import cleaned, redacted_place, remember, safe_cause

SECRET = "hunter2-hunter2"

OPTIONS = (
    "password", "kafka.ssl.key.password", "kafka.ssl.truststore.password", "kafka.sasl.jaas.config", "fs.s3a.secret.key",
    "fs.s3a.access.key", "fs.s3a.session.token", "fs.azure.account.key.x.dfs.core.windows.net", "sasToken", "apiKey", "api_key",
    "eventhubs.connectionString", "credentials", "pwd", "passphrase", "private_key", "kafka.ssl.keystore.key", "authorization",
)  # fmt: skip
"""Names of options under which sources and sinks of Spark take secrets."""

ADDRESSES = (
    f"jdbc:postgresql://user:{SECRET}@host/db",
    f"jdbc:postgresql://host/db?user=u&password={SECRET}&ssl=true",
    f"jdbc:sqlserver://host;databaseName=d;user=u;password={SECRET};",
    f"s3a://KEY:{SECRET}@bucket/path",
    f"https://account.blob.core.windows.net/c?sv=1&sig={SECRET}&se=2",
    f"https://host/f?X-Amz-Signature={SECRET}",
    f"Endpoint=sb://x/;SharedAccessKeyName=a;SharedAccessKey={SECRET}",
    f"org.apache.kafka.common.security.plain.PlainLoginModule required username=u password='{SECRET}';",
)


@pytest.mark.parametrize("option", OPTIONS)
def test_options_with_a_telling_name_are_not_shown(option: str) -> None:
    """Neither in the description of a source, nor of a target, nor in what Spark says of them."""
    from substrait_agg.spark.specs import parse_spec

    source = parse_spec(f"kafka:topic?{option}={SECRET}&startingOffsets=earliest")
    target = parse_target(f"kafka:topic?{option}={SECRET}")
    for text in (str(source), repr(source), source.redacted(), str(target), repr(target)):
        assert SECRET not in text
    assert "startingOffsets=earliest" in str(source)
    assert SECRET not in cleaned(f"cannot log in: {SECRET} is wrong")


@pytest.mark.parametrize("address", ADDRESSES)
def test_secrets_within_addresses_are_not_shown(address: str) -> None:
    """User information, pairs behind a question mark or between semicolons; the rest stays readable."""
    shown = redacted_place(address)
    assert SECRET not in shown
    assert shown.startswith(address[:8])
    assert SECRET not in cleaned(f"error: cannot open {address}: refused")


def test_an_exception_with_a_secret_is_no_cause_of_ours() -> None:
    """A traceback would show it."""
    remember([("password", SECRET)])
    failure = RuntimeError(f"login with {SECRET} failed")
    assert safe_cause(failure) is None
    assert safe_cause(RuntimeError("a timeout")) is not None
    with pytest.raises(ValueError, match="ours") as raised:
        raise ValueError("ours") from safe_cause(failure)
    assert SECRET not in "".join(traceback.format_exception(raised.value))
