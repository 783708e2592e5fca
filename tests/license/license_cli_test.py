#!/usr/bin/env python3
"""Exit statuses and lines of `tfctl license` and of the build's make_keyring.

Usage: license_cli_test.py TFCTL MAKE_KEYRING NVML   (NVML: a library with the cards GPU-aa000000-... and GPU-bb000000-...)
"""
import json
import os
import re
import shlex
import stat
import subprocess
import sys
import tempfile
import unittest

TFCTL, MAKE_KEYRING, NVML = sys.argv[1:4]
GPU_A = "GPU-6f000000-1111-2222-3333-4444aaaabbbb"
GPU_B = "GPU-b2000000-1111-2222-3333-4444aaaabbbb"
PASS = re.compile(r"License verification passed: edition=(\S+) expires=(\S+) id=(\S+) gpus=(\S+)( keyring=development)?\n")


class LicenseCli(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.state = os.path.join(self.folder.name, "license-time")

    def run_program(self, program, *arguments, env=None):
        clean = {k: v for k, v in os.environ.items() if not k.startswith("TF_")}
        clean["TF_LICENSE_STATE"] = self.state
        clean["TF_NVML_LIB_PATH"] = "/no/such/library"  # a machine without cards, wherever this runs
        return subprocess.run([program, *arguments], env={**clean, **(env or {})}, cwd=self.folder.name,
                              capture_output=True, text=True, check=False)

    def license(self, *arguments, env=None):
        return self.run_program(TFCTL, "license", *arguments, env=env)

    def issue(self, *arguments):
        done = self.license("issue", "--customer", "Example AG", "--format", "json", *arguments)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def check_refused(self, done, code):
        self.assertEqual(done.returncode, 78, done.stderr)
        self.assertEqual(done.stdout, "")
        self.assertRegex(done.stderr, rf"\ALicense verification failed: {code}: .+\n\Z")

    def test_issued_licence_passes(self):
        pair = self.issue("--edition", "team", "--id", "lic-1", "--expires", "2999-01-01")
        done = self.license("verify", env=pair)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual(PASS.fullmatch(done.stdout).groups()[:4], ("team", "2999-01-01T00:00:00Z", "lic-1", "any"))
        same = self.license("verify", "--license", pair["TF_LICENSE"], "--sign", pair["TF_LICENSE_SIGN"])
        self.assertEqual(same.stdout, done.stdout)
        self.assertFalse(os.path.exists(self.state), "a question leaves no trace")

    def test_every_format_holds_the_same_kind_of_pair(self):
        env = self.license("issue", "--customer", "Größe; $HOME", "--id", "x").stdout
        variables = dict(word.split("=", 1) for word in shlex.split(env))
        self.assertEqual(self.license("verify", env=variables).returncode, 0)
        shell = subprocess.run(["sh", "-c", f'eval "$1"; printf "%s" "$TF_LICENSE"', "sh", env], capture_output=True,
                               text=True, check=True)
        self.assertEqual(shell.stdout, variables["TF_LICENSE"])
        yaml = self.license("issue", "--customer", "x", "--format", "yaml").stdout
        values = re.findall(r'- name: (\w+)\n  value: "([^"]+)"\n', yaml)
        self.assertEqual([name for name, _ in values], ["TF_LICENSE", "TF_LICENSE_SIGN"])
        self.assertEqual(self.license("verify", env=dict(values)).returncode, 0)

    def test_wrapped_and_marked_strings_pass(self):
        pair = self.issue()
        wrapped = {k: "\ufeff" + "\r\n".join(v[i:i + 60] for i in range(0, len(v), 60)) + "\n" for k, v in pair.items()}
        self.assertEqual(self.license("verify", env=wrapped).returncode, 0)

    def test_refusals(self):
        pair = self.issue("--gpus", f"{GPU_B},{GPU_A.lower()}", "--expires", "2999-01-01", "--grace", "14",
                          "--not-before", "2998-01-01")
        other = self.issue()
        text, sign = pair["TF_LICENSE"], pair["TF_LICENSE_SIGN"]
        verify = lambda *arguments, **change: self.license("verify", *arguments, env={**pair, **change})
        self.check_refused(self.license("verify"), "missing_text")
        self.check_refused(self.license("verify", env={"TF_LICENSE": text}), "missing_signature")
        self.check_refused(verify(TF_LICENSE="'" + text + "'"), "malformed_text")
        self.check_refused(verify(TF_LICENSE_SIGN=sign + "="), "malformed_signature")
        self.check_refused(verify(TF_LICENSE=text.replace("Example", "Exemple")), "bad_signature")
        self.check_refused(verify(TF_LICENSE_SIGN=other["TF_LICENSE_SIGN"]), "bad_signature")
        self.check_refused(verify(), "not_yet_valid")
        at = ("--at", "2998-06-01")
        self.check_refused(verify("--at", "2999-01-15"), "expired")
        self.check_refused(verify(*at), "gpu_list_unavailable")
        self.check_refused(verify(*at, "--gpus", f"{GPU_A},GPU-c3000000-1111-2222-3333-4444aaaabbbb"), "gpu_not_licensed")
        self.check_refused(verify("--at", "2001-01-01"), "clock_rolled_back")
        good = verify(*at, "--gpus", GPU_A)
        self.assertEqual((good.returncode, PASS.fullmatch(good.stdout).group(4)), (0, "2"))
        grace = verify("--at", "2999-01-14", "--gpus", GPU_A)
        self.assertEqual(grace.returncode, 0)
        self.assertIn("grace: 1 days left", grace.stderr)

    def test_the_cards_of_this_machine(self):
        cards = [f"GPU-{two}000000-0000-0000-0000-000000000000" for two in ("aa", "bb")]
        both = {**self.issue("--gpus", ",".join(cards)), "TF_NVML_LIB_PATH": NVML}
        done = self.license("verify", env=both)
        self.assertEqual(done.returncode, 0, done.stderr)
        one = {**self.issue("--gpus", cards[0]), "TF_NVML_LIB_PATH": NVML}
        done = self.license("verify", env=one)
        self.check_refused(done, "gpu_not_licensed")
        self.assertIn(cards[1], done.stderr)
        self.assertEqual(self.license("verify", env={**one, "CUDA_VISIBLE_DEVICES": "GPU-aa"}).returncode, 0)

    def test_stored_time(self):
        pair = self.issue("--expires", "2999-01-01")
        with open(self.state, "w", encoding="utf-8") as file:
            file.write("2998-01-01T00:00:00Z\n")
        done = self.license("verify", env=pair)
        self.check_refused(done, "clock_rolled_back")
        self.assertIn(f"remove the file {self.state}", done.stderr)
        os.remove(self.state)
        self.assertEqual(self.license("verify", env=pair).returncode, 0)

    def test_own_key(self):
        done = self.license("keygen", "--kid", "2026a", "--out", "signing.key")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, r"\A2026a [0-9a-f]{64}\n\Z")
        key = os.path.join(self.folder.name, "signing.key")
        self.assertEqual(stat.S_IMODE(os.stat(key).st_mode), 0o600)
        again = self.license("keygen", "--kid", "2026a", "--out", "signing.key")
        self.assertEqual(again.returncode, 1)
        self.assertIn("exists", again.stderr)

        issued = self.license("issue", "--customer", "x", "--key", key, "--format", "json")
        self.assertEqual(issued.returncode, 0, issued.stderr)
        self.assertIn("do not trust key 2026a", issued.stderr)
        self.check_refused(self.license("verify", env=json.loads(issued.stdout)), "unknown_key")

        ring = os.path.join(self.folder.name, "ring")
        with open(ring, "w", encoding="utf-8") as file:
            file.write("# ours\n" + done.stdout)
        made = self.run_program(MAKE_KEYRING, "ring.inc", "--ring", ring)
        self.assertEqual(made.returncode, 0, made.stderr)
        with open(os.path.join(self.folder.name, "ring.inc"), encoding="utf-8") as file:
            text = file.read()
        self.assertIn("kKeyringIsDevelopment = false", text)
        self.assertIn(done.stdout, text)

    def test_the_build_refuses_a_weak_key(self):
        for weak in ("01" + "00" * 31, "ec" + "ff" * 30 + "7f"):
            with open(os.path.join(self.folder.name, "ring"), "w", encoding="utf-8") as file:
                file.write(f"2026a {weak}\n")
            made = self.run_program(MAKE_KEYRING, "ring.inc", "--ring", "ring")
            self.assertEqual(made.returncode, 1)
            self.assertIn("small order", made.stderr)
            self.assertFalse(os.path.exists(os.path.join(self.folder.name, "ring.inc")))

    def test_the_development_key_is_made_once(self):
        key = os.path.join(self.folder.name, "license", "development.key")
        texts = set()
        for _ in range(2):
            made = self.run_program(MAKE_KEYRING, "ring.inc", "--development", key)
            self.assertEqual(made.returncode, 0, made.stderr)
            with open(os.path.join(self.folder.name, "ring.inc"), encoding="utf-8") as file:
                texts.add(file.read())
        self.assertEqual(len(texts), 1)
        self.assertEqual(stat.S_IMODE(os.stat(key).st_mode), 0o600)
        with open(key, "w", encoding="utf-8") as file:
            file.write("nonsense")
        self.assertEqual(self.run_program(MAKE_KEYRING, "ring.inc", "--development", key).returncode, 1)

    def test_inspect(self):
        pair = self.issue("--id", "lic-9", "--max-gpus", "64", "--gpus", GPU_A, "--features", "console,rdma", "--grace", "14")
        done = self.license("inspect", env=pair)
        self.assertEqual(done.returncode, 0, done.stderr)
        fields = dict(line.split(None, 1) for line in done.stdout.splitlines())
        self.assertEqual(fields["id"], "lic-9")
        self.assertEqual(fields["customer"], "Example AG")
        self.assertEqual(fields["max-gpus"], "64")
        self.assertEqual(fields["gpus"], GPU_A)
        self.assertEqual(fields["features"], "console, rdma")
        self.assertEqual(fields["state"], "valid")
        self.assertTrue(fields["grace"].startswith("14 days, until "))
        broken = self.license("inspect", env={**pair, "TF_LICENSE": pair["TF_LICENSE"] + "x"})
        self.assertEqual((broken.returncode, broken.stdout), (78, ""))
        self.assertIn("bad_signature", broken.stderr)

    def test_wrong_usage(self):
        for status, arguments in ((2, ()), (2, ("issue",)), (2, ("issue", "--customer", "x", "--format", "xml")),
                                  (2, ("issue", "--customer", "x", "--days", "3", "--expires", "2999-01-01")),
                                  (1, ("issue", "--customer", "x", "--expires", "next year")),
                                  (1, ("issue", "--customer", "x", "--expires", "2001-01-01")),
                                  (1, ("issue", "--customer", "two\nlines")),
                                  (1, ("issue", "--customer", "x", "--gpus", "GPU-1")),
                                  (1, ("issue", "--customer", "x", "--key", "/none")),
                                  (1, ("verify", "--at", "tomorrow")), (1, ("keygen", "--kid", "a b"))):
            done = self.license(*arguments)
            self.assertEqual((done.returncode, done.stdout), (status, ""), f"{arguments}: {done.stderr}")
            self.assertTrue(done.stderr.strip())
        for arguments in (("--help",), ("license", "--help"), ("license", "issue", "--help"), ("--version",)):
            done = self.run_program(TFCTL, *arguments)
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            self.assertTrue(done.stdout)

    def test_completion(self):
        script = self.run_program(TFCTL, "--completion", "bash").stdout
        ask = script + f'\nCOMP_WORDS=({TFCTL} license issue --kid x --cust); COMP_CWORD=5; _tfctl; echo "${{COMPREPLY[@]}}"'
        done = subprocess.run(["bash", "-c", ask], capture_output=True, text=True, check=True)
        self.assertEqual(done.stdout, "--customer\n")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
