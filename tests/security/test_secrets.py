"""Passwords are removed from all output: descriptions of sources and targets, errors, messages of Spark."""

from __future__ import annotations

import json
import traceback
from urllib.parse import quote, quote_plus

import pytest

from substrait_agg.changes.targets.spark import parse_target
from substrait_agg.redaction import clean, redacted_place, remember, safe_cause

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
    """Neither in the description of a source or target, nor in messages of Spark."""
    from substrait_agg.spark.sources.specs import parse_spec

    source = parse_spec(f"kafka:topic?{option}={SECRET}&startingOffsets=earliest")
    target = parse_target(f"kafka:topic?{option}={SECRET}")
    for text in (str(source), repr(source), source.redact(), str(target), repr(target)):
        assert SECRET not in text
    assert "startingOffsets=earliest" in str(source)
    assert SECRET not in clean(f"cannot log in: {SECRET} is wrong")


@pytest.mark.parametrize("address", ADDRESSES)
def test_secrets_within_addresses_are_not_shown(address: str) -> None:
    """User information, pairs behind a question mark or between semicolons; the rest stays readable."""
    shown = redacted_place(address)
    assert SECRET not in shown
    assert shown.startswith(address[:8])
    assert SECRET not in clean(f"error: cannot open {address}: refused")


def test_an_exception_with_a_secret_is_no_cause_of_ours() -> None:
    """A traceback would show it."""
    remember([("password", SECRET)])
    failure = RuntimeError(f"login with {SECRET} failed")
    assert safe_cause(failure) is None
    assert safe_cause(RuntimeError("a timeout")) is not None
    with pytest.raises(ValueError, match="ours") as raised:
        raise ValueError("ours") from safe_cause(failure)
    assert SECRET not in "".join(traceback.format_exception(raised.value))


QUOTED = (
    f'{{"password": "{SECRET}"}}',
    f'{{\\"client_secret\\":\\"{SECRET}\\",\\"a\\":1}}',
    f"{{'token': '{SECRET}'}}",
    f"password: {SECRET}",
    f'password="two words {SECRET}"',
    f"password%3D{SECRET}%26a%3D1",
    f"Map(password -> {SECRET}, user -> u)",
    f"{{kafka.ssl.key.password => {SECRET}}}",
    f"spark-submit --password {SECRET} --class X",
    f"Authorization: Bearer {SECRET}",
    f"Authorization: Basic {SECRET}",
    f"header Bearer {SECRET}",
    f"<fs.s3a.secret.key>{SECRET}</fs.s3a.secret.key>",
    f"cannot open s3a://KEY:ab/cd+{SECRET}@bucket/path",
    f"cannot open https://u:a@b{SECRET}@host/path",
    f"jdbc:oracle:thin:scott/{SECRET}@host:1521:x",
)
"""As other programs quote them: JSON, maps, commands, headers, addresses whose passwords are not encoded."""


@pytest.mark.parametrize("text", QUOTED)
def test_secrets_in_the_words_of_other_programs_are_not_shown(text: str) -> None:
    """With any separator between the name and the secret."""
    assert SECRET not in redacted_place(text)


@pytest.mark.parametrize(
    "text",
    [
        "hdfs://namenode:8020/data/x@y.parquet",
        "s3a://bucket/a:b/c@d/e.parquet",
        "http://[::1]:8080/x@y",
        "jdbc:postgresql://host:5432/db?user=u&ssl=true",
        "the columns are a, b: c = 1; d -> e",
        "line 1: no viable alternative at input 'x'",
    ],
)
def test_what_is_no_secret_stays(text: str) -> None:
    """Ports, times and paths with an @ are locations, not passwords."""
    assert redacted_place(text) == text


ODD = 'p@ss w0rd"x/ü'


@pytest.mark.parametrize(
    "text",
    [quote(ODD, safe=""), quote(ODD), quote_plus(ODD), json.dumps(ODD), json.dumps(ODD, ensure_ascii=False), repr(ODD)],
)  # fmt: skip
def test_a_secret_is_found_as_addresses_and_json_write_it(text: str) -> None:
    """Spark quotes options as it has made them into something else."""
    remember([("password", ODD)])
    assert "w0rd" not in clean(f"failed with {text}")


def test_a_secret_within_a_value_is_found_alone() -> None:
    """An error of Spark can contain the password alone, without its address or JAAS line."""
    from substrait_agg.spark.sources.specs import parse_spec

    line = 'org.x.PlainLoginModule required username="u" password="inner-one";'
    remember(
        [("kafka.sasl.jaas.config", line), ("url", "jdbc:x://u:inner-two@h/d?password=inner-3")]
    )
    parse_spec("parquet:s3a://KEY:inner-four@bucket/path")
    parse_target("delta:s3a://KEY:inner-five@bucket/path")
    text = "login with inner-one, inner-two, inner-3, inner-four, inner-five"
    assert "inner" not in clean(text)
