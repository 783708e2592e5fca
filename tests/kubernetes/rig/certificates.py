"""Keys and certificates of one cluster, by the openssl program: one authority that signs all, on curve P-256."""
import os
import subprocess

_CONFIG = """\
[req]
distinguished_name = name
[name]
[authority]
basicConstraints = critical,CA:TRUE
keyUsage = critical,keyCertSign,digitalSignature
subjectKeyIdentifier = hash
[leaf]
basicConstraints = critical,CA:FALSE
keyUsage = critical,digitalSignature
extendedKeyUsage = serverAuth,clientAuth
authorityKeyIdentifier = keyid
"""


class Authority:
    """Certificates in FOLDER: NAME.crt beside NAME.key. The authority's own are ca.crt and ca.key; valid for a year."""

    def __init__(self, folder):
        self.folder = folder
        folder.mkdir(mode=0o700, exist_ok=True)
        (folder / "openssl.cnf").write_text(_CONFIG)
        self._openssl("req", "-x509", "-extensions", "authority", "-subj", "/CN=tensor-fusion test cluster", *self._key_out("ca"))
        self._openssl("genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256", "-out", "service-account.key")
        self._openssl("pkey", "-in", "service-account.key", "-pubout", "-out", "service-account.pub")

    def issue(self, name, common_name, organization=None, names=()):
        """A certificate for both ends of TLS; NAMES as openssl writes them, IP:127.0.0.1 or DNS:localhost."""
        subject = (f"/O={organization}" if organization else "") + f"/CN={common_name}"
        more = ["-addext", "subjectAltName=" + ",".join(names)] if names else []
        self._openssl("req", "-x509", "-CA", "ca.crt", "-CAkey", "ca.key", "-extensions", "leaf", "-subj", subject, *more,
                      *self._key_out(name))

    def _key_out(self, name):
        return ["-config", "openssl.cnf", "-days", "365", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                "-keyout", f"{name}.key", "-out", f"{name}.crt"]

    def _openssl(self, *arguments):
        result = subprocess.run(["openssl", *arguments], cwd=self.folder, capture_output=True, text=True, umask=0o077,
                                env={"PATH": os.environ["PATH"]})
        if result.returncode != 0:
            raise RuntimeError(f"openssl {arguments[0]} failed: {result.stderr.strip()}")
