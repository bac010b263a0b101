# The image of modproxy: the program, git and ssh for modules that are in git, and
# the certificate authorities of the public web. It runs as nobody in particular
# and keeps everything in the volume /data.
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

# Numeric, so that Kubernetes can see that it is not root.
USER 10001:10001
WORKDIR /data
VOLUME /data
EXPOSE 8080

# All addresses of the container, where clients have to show a token, unless somebody
# says, with MODPROXY_ANONYMOUS=true, that whoever can connect may read everything.
ENV MODPROXY_LISTEN=:8080 \
    MODPROXY_DATA=/data

# It asks the proxy that the variables describe: a configuration file belongs into
# MODPROXY_CONFIG, not into the arguments.
HEALTHCHECK --interval=30s --timeout=6s --start-period=10s --retries=3 CMD ["modproxy", "health"]

ENTRYPOINT ["modproxy"]
CMD ["serve"]
