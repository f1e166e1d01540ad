#!/bin/sh
# Bundles the Terminal's editor into the dashboard's static files; needs npm. Run after a change of a version here.
set -eu
cd "$(dirname "$0")"
static=../../src/lakelog/service/dashboard/static/vendor
npm install --no-save --no-package-lock
node_modules/.bin/esbuild entry.js --bundle --format=esm --minify --legal-comments=none --outfile="$static/codemirror.js"
rm -rf node_modules
cd "$static"
sha256sum ./*.js ./*.css ./*.LICENSE | sed 's#\./##' | LC_ALL=C sort -k2 >SHA256SUMS
