#!/bin/bash
# Checks if the server in this container is ready, without an HTTP client in the image.
set -eu
exec 3<>"/dev/tcp/127.0.0.1/${SCRATCHBOOK_PORT:-8000}"
printf 'GET /health/ready HTTP/1.0\r\nHost: localhost\r\n\r\n' >&3
read -r -t 4 _ status _ <&3
[ "$status" = 200 ]
