"""Names, addresses and phones of persons and companies."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from benchmarks.tpcdi.columns import Random, chosen, digits, sparse, text, where

FIRST_NAMES = (
    "Ada Alan Amira Anna Ben Carl Chen Clara Dana David Elena Emil Eva Farid Felix Grace Hana Hugo Ida Igor Ines Ivan "
    "Jana John Jonas Julia Karin Kenji Laura Leo Lina Lucas Maria Mark Maya Mei Nadia Nils Noor Olga Omar Oscar Paul "
    "Petra Priya Ravi Rosa Sara Simon Sofia Tara Theo Uma Vera Victor Wei Yara Yusuf Zoe"
).split()
LAST_NAMES = (
    "Adams Alvarez Bauer Becker Berg Brown Castro Chan Clark Costa Davis Diaz Dubois Evans Fischer Flores Fox Garcia "
    "Gray Green Gupta Haas Hall Hansen Hill Ito Jensen Jones Kaur Keller Kim King Klein Kumar Lang Larsen Lee Lopez "
    "Martin Meyer Mills Moore Nagy Nowak Olsen Park Patel Perez Popov Reed Rossi Roth Ruiz Sato Scott Silva Singh "
    "Smith Stein Suzuki Torres Vargas Wagner Walker Wang Weber White Wong Wood Young Zhang"
).split()
STREETS = "Ash Birch Cedar Church Elm High Hill Lake Main Maple Mill Oak Park Pine River School Spring".split()
KINDS = "Ave Blvd Court Drive Lane Road St Way".split()
CITIES = (
    "Ashford Brighton Clayton Dover Easton Fairview Georgetown Hudson Kingston Lebanon Madison Newport Oxford "
    "Riverside Salem Springfield Troy Union Vernon Winchester"
).split()
STATES = (
    "AL AK AZ AR CA CO CT DE FL GA HI ID IL IN IA KS KY LA ME MD MA MI MN MS MO MT NE NV NH NJ NM NY NC ND OH OK OR "
    "PA RI SC SD TN TX UT VT VA WA WV WI WY AB BC MB NB NL NS ON PE QC SK"
).split()
UNITED = 50
"""States of the United States; those after them are provinces of Canada."""
LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
MAIL = "example.com example.net example.org".split()


def address(random: Random, count: int) -> dict[str, pa.Array]:
    """Return the columns line1, line2, zipcode, city, state, country of addresses."""
    state = random.integers(0, len(STATES), count)
    number = random.integers(1, 30_000, count)
    line1 = text(number, chosen(random, count, STREETS), chosen(random, count, KINDS))
    flat = text("Apt.", random.integers(1, 999, count))
    country = np.where(state < UNITED, "United States of America", "Canada").astype(object)
    return {
        "line1": line1,
        "line2": where(random.random(count) < 0.3, flat),
        "zipcode": digits(random.integers(10_000, 99_999, count), 5),
        "city": chosen(random, count, CITIES),
        "state": pa.array(STATES).take(pa.array(state)),
        "country": sparse(random, country),
    }


def phone(random: Random, count: int, number: int) -> dict[str, pa.Array]:
    """Return the parts of a phone: some lack the country, then the area, then all."""
    length = random.choice(4, count, p=[0.05, 0.1, 0.15, 0.7])
    local = text(digits(random.integers(200, 999, count), 3),
                 digits(random.integers(0, 9999, count), 4), between="-")  # fmt: skip
    return {
        f"c_ctry_{number}": where(length > 2, np.full(count, "1", object)),
        f"c_area_{number}": where(length > 1, digits(random.integers(200, 999, count), 3)),
        f"c_local_{number}": where(length > 0, local),
        f"c_ext_{number}": where(
            (length > 0) & (random.random(count) < 0.2), digits(random.integers(1, 9999, count), 4)
        ),
    }


def full_phone(random: Random, count: int) -> pa.Array:
    """Return phones as one text."""
    area = text("(", digits(random.integers(200, 999, count), 3), ")", between="")
    local = text(digits(random.integers(200, 999, count), 3),
                 digits(random.integers(0, 9999, count), 4), between="-")  # fmt: skip
    return text(area, local)
