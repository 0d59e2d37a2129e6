# Serves Keystone on 127.0.0.1, on the port that is its only argument.
import socketserver
import sys
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

port = int(sys.argv[1])
sys.argv = ["keystone"]  # it reads the arguments when it is imported
from keystone.common.rbac_enforcer.enforcer import RBACEnforcer
from keystone.wsgi.api import application

# The first request that needs a right reads Keystone's rules, and it does so without a lock: a second request at the same
# moment finds a part of them, and Keystone answers 403. A process of a real installation serves one request at a time.
RBACEnforcer()._enforcer.load_rules()


class Server(socketserver.ThreadingMixIn, WSGIServer):
    daemon_threads = True
    request_queue_size = 64


make_server("127.0.0.1", port, application, server_class=Server, handler_class=WSGIRequestHandler).serve_forever()
