# Runs files of Placement's own functional suite against a server, and prints a line of JSON: {"passed": {FILE: N}, "failed": {TEST: WHY}}.
#
# usage: conformance.py PORT DATABASE_URL FILE...            these files
#        conformance.py PORT DATABASE_URL --policy POLICY    all that need a server with this policy: default, legacy, open, cors
#
# The suite was made to run in one process with the server it tests. Two things are changed: the requests go to the port, and the suite's
# fixtures, which put records into the database, get the server's database, emptied before each file.
import json
import os
import shutil
import sys
import tempfile
import unittest

import fixtures
import sqlalchemy
import yaml
from gabbi import driver
from placement import db_api, deploy
from placement.objects import resource_class, trait
from placement.tests import functional
from placement.tests.functional.fixtures import gabbits

port, url, files = int(sys.argv[1]), sys.argv[2], sys.argv[3:]
engine = sqlalchemy.create_engine(url)


def empty():
    with engine.begin() as connection:
        connection.execute(sqlalchemy.text("SET FOREIGN_KEY_CHECKS=0"))
        for table in sqlalchemy.inspect(engine).get_table_names():
            if table != "alembic_version":
                connection.execute(sqlalchemy.text(f"TRUNCATE TABLE `{table}`"))


class Database(fixtures.Fixture):
    def __init__(self, conf_fixture, set_config=False):
        super().__init__()
        self.conf_fixture = conf_fixture

    def setUp(self):
        super().setUp()
        conf = self.conf_fixture
        conf.config(group="placement_database", connection=url)
        db_api.configure(conf.conf)
        # Traits and resource classes were written when the server started, and are gone.
        trait._TRAITS_SYNCED = resource_class._RESOURCE_CLASSES_SYNCED = False
        deploy.update_database(conf.conf)


gabbits.fixtures.Database = Database


class Result(unittest.TestResult):
    passed = 0

    def addSuccess(self, test):
        super().addSuccess(test)
        self.passed += 1


folder = os.path.join(os.path.dirname(functional.__file__), "gabbits")
# Everything else is tested with rules that are deprecated by now (APIFixture).
POLICIES = {"SecureRBACPolicyFixture": "default", "OpenPolicyFixture": "open", "CORSFixture": "cors"}


def policy(name):
    with open(os.path.join(folder, name)) as file:
        needs = yaml.safe_load(file).get("fixtures") or []
    return next((POLICIES[need] for need in needs if need in POLICIES), "legacy")


if files[:1] == ["--policy"]:
    every = sorted(file for file in os.listdir(folder) if file.endswith(".yaml"))
    files = [name for name in every if policy(name) == files[1]]
report = {"passed": {}, "failed": {}}
for name in files:
    with tempfile.TemporaryDirectory() as one:
        shutil.copy(os.path.join(folder, name), one)
        empty()
        suite = driver.build_tests(
            one, unittest.TestLoader(), host="127.0.0.1", port=port, test_loader_name="weft", fixture_module=gabbits
        )
        result = Result()
        suite.run(result)
    report["passed"][name] = result.passed
    # A test that is skipped was not passed.
    problems = result.failures + result.errors + [(test, why) for test, why in result.skipped]
    report["failed"].update({f"{name}: {test}": why for test, why in problems})
json.dump(report, sys.stdout)
