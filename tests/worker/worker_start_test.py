#!/usr/bin/env python3
"""Starts workers that must start and workers that must not: worker_start_test.py BUILD_FOLDER"""
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import tempfile
import unittest

BUILD = pathlib.Path(sys.argv.pop(1)).resolve()
WORKER = str(BUILD / "bin/tensor-fusion-worker")
TFCTL = str(BUILD / "bin/tfctl")
NO_DRIVER = {"TF_CUDA_LIB_PATH": "/nonexistent/libcuda.so.1"}


def base(folder):
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("TF_", "CUDA_", "TENSOR_FUSION_"))}
    return environment | {"TF_RUN_DIR": f"{folder}/run", "TF_LICENSE_STATE": f"{folder}/license-time",
                          "TF_SIM_SEED": f"worker-start-{os.getpid()}",
                          "TF_CUDA_LIB_PATH": f"{BUILD}/lib/sim/libcuda.so.1",
                          "TF_NVML_LIB_PATH": f"{BUILD}/lib/sim/libnvidia-ml.so.1"}


def issue(*options):
    out = subprocess.run([TFCTL, "license", "issue", "--customer", "test", *options], capture_output=True, text=True, check=True).stdout
    return {line.split("=", 1)[0]: line.split("=", 1)[1].strip("'") for line in out.splitlines()}


class WorkerStart(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.environment = base(self.folder.name)

    def tearDown(self):
        self.folder.cleanup()

    def refused(self, environment, *options, status=1):
        done = subprocess.run([WORKER, *options], env=self.environment | environment, capture_output=True, text=True, timeout=30)
        self.assertEqual(done.returncode, status, done.stderr)
        self.assertEqual(done.stdout, "")
        self.assertEqual(len(done.stderr.strip().splitlines()), 1, done.stderr)
        return done.stderr.strip()

    def ready(self, environment, *options):
        worker = subprocess.Popen([WORKER, *options], env=self.environment | environment, stdout=subprocess.PIPE,
                                  stderr=subprocess.PIPE, text=True)
        line = worker.stdout.readline()
        worker.send_signal(signal.SIGTERM)
        _, errors = worker.communicate(timeout=30)
        self.assertEqual(worker.returncode, 0, errors)
        self.assertIn(" ready at ", line)
        return errors

    # --- licence: refused before a driver is even looked for (there is none)

    def licence_refused(self, code, environment):
        line = self.refused(NO_DRIVER | environment, "-n", "native", "-p", "0", status=78)
        self.assertRegex(line, rf"^License verification failed: {code}: \S")
        for secret in (environment.get("TF_LICENSE"), environment.get("TF_LICENSE_SIGN")):
            if secret:
                self.assertNotIn(secret, line)

    def test_no_licence(self):
        self.licence_refused("missing_text", {})
        self.licence_refused("missing_signature", {"TF_LICENSE": issue()["TF_LICENSE"]})

    def test_expired(self):
        self.licence_refused("expired", issue("--issued", "2026-01-01", "--expires", "2026-02-01"))

    def test_text_with_the_signature_of_another(self):
        self.licence_refused("bad_signature", {"TF_LICENSE": issue("--id", "lic-a")["TF_LICENSE"],
                                               "TF_LICENSE_SIGN": issue("--id", "lic-b")["TF_LICENSE_SIGN"]})

    def test_tampered(self):
        pair = issue()
        pair["TF_LICENSE"] = pair["TF_LICENSE"].replace("edition=enterprise", "edition=enterprisf")
        self.licence_refused("bad_signature", pair)

    def test_other_gpu(self):
        pair = issue("--gpus", "GPU-00000000-0000-0000-0000-000000000001")
        line = self.refused(pair, "-n", "native", "-p", "0", status=78)
        self.assertRegex(line, r"^License verification failed: gpu_not_licensed: .*GPU-")

    def test_no_list_of_gpus(self):
        self.licence_refused("gpu_list_unavailable",
                             issue("--gpus", "GPU-00000000-0000-0000-0000-000000000001") |
                             {"TF_NVML_LIB_PATH": "/nonexistent/libnvidia-ml.so.1"})

    def test_its_own_gpus(self):
        listed = subprocess.run([TFCTL, "gpus", "-o", "json"], env=self.environment, capture_output=True, text=True, check=True).stdout
        uuids = re.findall(r'"uuid": "([^"]+)"', listed)
        self.ready(issue("--gpus", ",".join(uuids)), "-n", "native", "-p", "0")

    def test_the_pass_line_is_for_the_log(self):
        pair = issue()
        passed = r"^License verification passed: edition=\S+ expires=\S+Z id=\S+ gpus=any keyring=development$"
        self.assertRegex(self.ready(pair | {"TF_ENABLE_LOG": "1", "TF_LOG_LEVEL": "warn"}, "-n", "native", "-p", "0").strip(), passed)
        self.assertEqual(self.ready(pair, "-n", "native", "-p", "0"), "")

    # --- the rest of the start

    def test_missing_driver(self):
        self.assertIn("/nonexistent/libcuda.so.1", self.refused(issue() | NO_DRIVER, "-n", "native", "-p", "0"))

    def test_limits_that_cannot_be_parsed(self):
        for name, value in (("TF_GPU_MEMORY_LIMIT", "1Gi"), ("TF_GPU_MEMORY_LIMIT", "-1"), ("TF_CUDA_SM_PERCENT_LIMIT", "0"),
                            ("TF_CUDA_SM_PERCENT_LIMIT", "101"), ("TF_CUDA_SM_PERCENT_LIMIT", "half")):
            line = self.refused(issue() | {name: value}, "-n", "native", "-p", "0")
            self.assertIn(name, line)
            self.assertIn(value, line)

    def test_busy_port(self):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            port = str(taken.getsockname()[1])
            self.assertIn(port, self.refused(issue(), "-n", "native", "-p", port))

    def test_name_in_use(self):
        name = f"tf-start-{os.getpid()}"
        first = subprocess.Popen([WORKER, "-n", "shmem", "-m", name], env=self.environment | issue(), stdout=subprocess.PIPE, text=True)
        self.assertIn(" ready at ", first.stdout.readline())
        try:
            self.assertIn(name, self.refused(issue(), "-n", "shmem", "-m", name))
        finally:
            first.kill()
            first.wait()
            first.stdout.close()
        # The socket that a killed worker left behind is no obstacle.
        self.ready(issue(), "-n", "shmem", "-m", name)

    def test_beyond_loopback_needs_a_key(self):
        self.assertRegex(self.refused(issue(), "-n", "native", "-p", "0", "--address", "0.0.0.0"), "key")

    def test_without_a_key_it_can_listen_and_refuse(self):
        worker = subprocess.Popen([WORKER, "-n", "native", "-p", "0", "--address", "0.0.0.0", "--refuse-without-key"],
                                  env=self.environment | issue(), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        try:
            connection = worker.stdout.readline().strip().split(" ready at ")[1].replace("0.0.0.0", "127.0.0.1")
            socket.create_connection(("127.0.0.1", int(connection.split("+")[2])), timeout=10).close()
            done = subprocess.run([TFCTL, "run", "--connect", connection, "--", str(BUILD / "examples/vector_add")],
                                  env=self.environment, capture_output=True, text=True, timeout=60)
            self.assertNotEqual(done.returncode, 0)
            self.assertIn("key", done.stderr)
        finally:
            worker.terminate()
            worker.wait()
            worker.stdout.close()
        # On loopback it changes nothing.
        self.ready(issue(), "-n", "native", "-p", "0", "--refuse-without-key")

    def test_key_file_that_others_can_read(self):
        key = pathlib.Path(self.folder.name) / "key"
        key.write_text("0" * 64 + "\n")
        key.chmod(0o644)
        self.assertIn(str(key), self.refused(issue(), "-n", "native", "-p", "0", "--link-key-file", str(key)))

    def test_link_key(self):
        key = pathlib.Path(self.folder.name) / "key"
        key.write_text("5a" * 32 + "\n")
        key.chmod(0o600)
        worker = subprocess.Popen([WORKER, "-n", "native", "-p", "0", "--link-key-file", str(key)], env=self.environment | issue(),
                                  stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        try:
            connection = worker.stdout.readline().strip().split(" ready at ")[1]
            program = [TFCTL, "run", "--connect", connection, "--", str(BUILD / "examples/vector_add")]
            with_key = program[:2] + ["--link-key-file", str(key)] + program[2:]
            done = subprocess.run(with_key, env=self.environment, capture_output=True, text=True, timeout=60)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            done = subprocess.run(program, env=self.environment, capture_output=True, text=True, timeout=60)
            self.assertNotEqual(done.returncode, 0)
            self.assertIn("key", done.stderr)
            key.write_text("5b" * 32 + "\n")
            done = subprocess.run(with_key, env=self.environment, capture_output=True, text=True, timeout=60)
            self.assertNotEqual(done.returncode, 0)
        finally:
            worker.terminate()
            worker.wait()
            worker.stdout.close()

    def test_bad_options(self):
        for options in (["-n", "carrier-pigeon"], ["-p", "70000"], ["-M", "0", "-n", "shmem"], ["--no-such-option"]):
            done = subprocess.run([WORKER, *options], env=self.environment | issue(), capture_output=True, text=True, timeout=30)
            self.assertNotEqual(done.returncode, 0, options)
            self.assertTrue(done.stderr.strip(), options)

    def test_another_protocol(self):
        worker = subprocess.Popen([WORKER, "-n", "native", "-p", "0"], env=self.environment | issue(), stdout=subprocess.PIPE, text=True)
        try:
            connection = worker.stdout.readline().strip().split(" ready at ")[1]
            host, port = connection.split("+")[1:3]
            with socket.create_connection((host, int(port))) as client:
                client.sendall(b"GET / HTTP/1.1\r\n\r\n" * 8)
                client.settimeout(10)
                try:
                    while client.recv(4096):
                        pass
                except ConnectionResetError:
                    pass  # an end too
            # And it serves the next one.
            done = subprocess.run([TFCTL, "run", "--connect", connection, "--", str(BUILD / "examples/vector_add")],
                                  env=self.environment, capture_output=True, text=True, timeout=60)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        finally:
            worker.terminate()
            worker.wait()
            worker.stdout.close()


if __name__ == "__main__":
    unittest.main()
