#!/bin/bash
# Whether the server in this container is ready: an image needs no HTTP client for that.
set -eu
exec 3<>"/dev/tcp/127.0.0.1/${SCRATCHBOOK_PORT:-8000}"
printf 'GET /health/ready HTTP/1.0\r\nHost: localhost\r\n\r\n' >&3
read -r -t 4 _ status _ <&3
[ "$status" = 200 ]
