#!/bin/sh
# Write fresh samples with Kafka's own classes: make.sh SEED N OUT.ndjson.gz [JARS]
#
# N samples per definition and version; versions that both releases have get a third more from the older one. JARS is a
# directory with kafka-3.9.1/ and kafka-4.4.0/ (default: build/kafka); what is missing there is fetched with Maven.
# Needs a Java 17 JDK. Also writes the error codes of both releases beside OUT, as OUT's directory/error_codes.tsv.
set -eu
if [ $# -lt 3 ]; then
    sed -n '2,6s/^# \{0,1\}//p' "$0" >&2
    exit 2
fi
seed=$1 number=$2 out=$3
here=$(cd "$(dirname "$0")" && pwd)
jars=${4:-$here/../../build/kafka}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

fetch() { # VERSION: the jars of a broker, its clients, Connect and Streams
    mkdir -p "$jars/kafka-$1" "$work/maven"
    {
        echo '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>'
        echo '<groupId>kafkascope</groupId><artifactId>jars</artifactId><version>1</version><dependencies>'
        for artifact in kafka_2.13 kafka-tools connect-runtime kafka-streams; do
            echo "<dependency><groupId>org.apache.kafka</groupId><artifactId>$artifact</artifactId>"
            echo "<version>$1</version></dependency>"
        done
        echo '</dependencies></project>'
    } > "$work/maven/pom.xml"
    (cd "$work/maven" && mvn -q -B dependency:copy-dependencies -DoutputDirectory="$jars/kafka-$1")
}

for version in 4.4.0 3.9.1; do
    [ -e "$jars/kafka-$version/kafka-clients-$version.jar" ] || fetch "$version"
    mkdir -p "$work/$version/source" "$work/$version/classes"
    if [ "$version" = 3.9.1 ]; then
        grep -v '// not in 3\.9\.1' "$here/Oracle.java" > "$work/$version/source/Oracle.java"
        known=$work/known new=-
    else
        cp "$here/Oracle.java" "$work/$version/source/"
        known=- new=$work/known
    fi
    cp "$here/ErrorCodes.java" "$work/$version/source/"
    javac -nowarn -Xlint:none -cp "$jars/kafka-$version/*" -d "$work/$version/classes" "$work/$version/source/"*.java
    classes="$work/$version/classes:$jars/kafka-$version/*"
    java -Xmx1g -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -cp "$classes" Oracle \
        "$jars/kafka-$version" "$version" "$seed" "$number" $(((number + 2) / 3)) "$known" "$new" "$work/$version.ndjson"
    java -XX:TieredStopAtLevel=1 -cp "$classes" ErrorCodes | sed "s/^/$version\t/" >> "$work/error_codes.tsv"
done
cat "$work/4.4.0.ndjson" "$work/3.9.1.ndjson" | gzip -9n > "$out"
cp "$work/error_codes.tsv" "$(dirname "$out")/error_codes.tsv"
