# The image of modproxy, like that of a release (packaging/image.json): the program, git and ssh for modules in git
# repositories, and the certificate authorities of the public web. It runs as an unprivileged user, with a read-only
# root file system if the engine makes it so, and stores all data in the volume /var/lib/modproxy.
#
#   docker build --build-arg VERSION=v1.2.3 --build-arg COMMIT="$(git rev-parse HEAD)" -t modproxy .

FROM golang:1.26-trixie AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN --mount=type=cache,target=/go/pkg/mod go mod download
COPY . .
ARG VERSION=""
ARG COMMIT=""
RUN --mount=type=cache,target=/go/pkg/mod --mount=type=cache,target=/root/.cache/go-build \
    CGO_ENABLED=0 go build -trimpath -buildvcs=false -ldflags "-s -w -X main.version=${VERSION} -X main.commit=${COMMIT}" \
    -o /modproxy ./cmd/modproxy

FROM debian:trixie-slim
RUN apt-get update \
    && apt-get install -y --no-install-recommends ca-certificates git openssh-client \
    && rm -rf /var/lib/apt/lists/* \
    && groupadd --gid 10001 modproxy \
    && useradd --uid 10001 --gid modproxy --home-dir /var/lib/modproxy --no-create-home --shell /usr/sbin/nologin modproxy \
    && install -d -o modproxy -g modproxy -m 0700 /var/lib/modproxy
COPY --from=build /modproxy /usr/bin/modproxy

# The ids are numbers, so that Kubernetes can check that the user is not root.
USER 10001:10001
WORKDIR /var/lib/modproxy
VOLUME /var/lib/modproxy
EXPOSE 8080

# modproxy listens on all addresses of the container. Clients then need a token, unless
# the operator sets MODPROXY_ANONYMOUS=true: every client can then read everything.
ENV PATH=/usr/sbin:/usr/bin:/sbin:/bin \
    MODPROXY_LISTEN=:8080 \
    MODPROXY_DATA=/var/lib/modproxy

# "modproxy health" reads the same variables, but not the arguments of "serve". Name a
# configuration file in MODPROXY_CONFIG, not in the arguments.
HEALTHCHECK --interval=30s --timeout=6s --start-period=10s --retries=3 CMD ["modproxy", "health"]

ENTRYPOINT ["modproxy"]
CMD ["serve"]
