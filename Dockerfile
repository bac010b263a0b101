# The image of modproxy: the program, git and ssh for modules in git repositories, and
# the certificate authorities of the public web. It runs as an unprivileged user and
# stores all data in the volume /data.
#
#   docker build --build-arg VERSION=v1.2.3 -t modproxy .

FROM golang:1.26-alpine AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN --mount=type=cache,target=/go/pkg/mod go mod download
COPY . .
ARG VERSION=""
RUN --mount=type=cache,target=/go/pkg/mod --mount=type=cache,target=/root/.cache/go-build \
    CGO_ENABLED=0 go build -trimpath -buildvcs=false -ldflags "-s -w -X main.version=${VERSION}" \
    -o /modproxy ./cmd/modproxy

FROM alpine:3.22
RUN apk add --no-cache ca-certificates git openssh-client \
    && adduser -D -H -u 10001 -h /data modproxy \
    && install -d -o modproxy -g modproxy -m 0700 /data
COPY --from=build /modproxy /usr/local/bin/modproxy

# The ids are numbers, so that Kubernetes can check that the user is not root.
USER 10001:10001
WORKDIR /data
VOLUME /data
EXPOSE 8080

# modproxy listens on all addresses of the container. Clients then need a token, unless
# the operator sets MODPROXY_ANONYMOUS=true: every client can then read everything.
ENV MODPROXY_LISTEN=:8080 \
    MODPROXY_DATA=/data

# "modproxy health" reads the same variables, but not the arguments of "serve". Name a
# configuration file in MODPROXY_CONFIG, not in the arguments.
HEALTHCHECK --interval=30s --timeout=6s --start-period=10s --retries=3 CMD ["modproxy", "health"]

ENTRYPOINT ["modproxy"]
CMD ["serve"]
