# kafkascope in a container: beside a broker, in its network, or for captures that are mounted.
#
#   docker build -t kafkascope .
#   docker run --rm --network container:BROKER --cap-drop ALL --cap-add NET_RAW --cap-add SETUID --cap-add SETGID \
#       kafkascope sniff --iface any --incidents
#   docker run --rm --network none --cap-drop ALL --user "$(id -u):$(id -g)" -v "$PWD:/data" \
#       kafkascope kafkascope analyze /data/capture.pcap -o /data/out --in-process
#   kubectl debug -it BROKER-POD --image=kafkascope --profile=netadmin -- sniff --iface any --incidents
#
# SETUID and SETGID are for root to be nobody once the interface is open. Spark and its Java are not in it.

FROM python:3.11-slim AS build
RUN pip install --no-cache-dir uv
COPY . /src
RUN uv venv /opt/kafkascope \
 && uv pip install --no-cache --python /opt/kafkascope --constraint /src/requirements.lock "/src[metrics,top]" \
 && /opt/kafkascope/bin/kafkascope warm

FROM python:3.11-slim
COPY --from=build /opt/kafkascope /opt/kafkascope
ENV PATH=/opt/kafkascope/bin:$PATH
WORKDIR /data
CMD ["sniff", "--help"]
