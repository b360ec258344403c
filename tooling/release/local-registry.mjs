#!/usr/bin/env node
/**
 * An npm registry on loopback that serves only the tarballs in the given folders, so that packages can be
 * tested as users will install them. It has one version of each package.
 *   node local-registry.mjs --port PORT FOLDER...
 */
import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { createReadStream, readdirSync, readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { gunzipSync } from 'node:zlib';

/** Returns the package.json in a tarball. It is in the tarball's only top folder, which may have any name. */
export function readManifest(tarball) {
  const { stdout, status } = spawnSync(
    'tar',
    ['-xO', '--wildcards', '--no-wildcards-match-slash', '*/package.json'],
    {
      input: gunzipSync(readFileSync(tarball)),
      encoding: 'utf8',
      maxBuffer: 1 << 28,
    },
  );
  if (status !== 0) throw new Error(`${tarball} holds no package.json`);
  return JSON.parse(stdout);
}

const computeIntegrity = (tarball) =>
  `sha512-${createHash('sha512').update(readFileSync(tarball)).digest('base64')}`;

/** Serves the tarballs in `folders`. Resolves to the server, which listens on 127.0.0.1. */
export function startRegistry({ folders, port = 0 }) {
  const tarballs = folders.flatMap((folder) =>
    readdirSync(folder)
      .filter((file) => file.endsWith('.tgz'))
      .map((file) => join(folder, file)),
  );
  const packages = new Map();
  for (const tarball of tarballs) {
    const manifest = readManifest(tarball);
    const known = packages.get(manifest.name) ?? [];
    packages.set(manifest.name, [...known, { manifest, tarball, integrity: computeIntegrity(tarball) }]);
  }
  const server = createServer((request, response) => {
    const path = decodeURIComponent(request.url.split('?')[0]).slice(1);
    const { port: actual } = server.address();
    const file = /^files\/(\d+)\.tgz$/.exec(path);
    if (file !== null && tarballs[file[1]] !== undefined) {
      createReadStream(tarballs[file[1]]).pipe(response);
      return;
    }
    const versions = packages.get(path);
    if (versions === undefined) {
      response.writeHead(404).end('{"error":"not found"}');
      return;
    }
    const url = (tarball) => `http://127.0.0.1:${actual}/files/${tarballs.indexOf(tarball)}.tgz`;
    const described = versions.map(({ manifest, tarball, integrity }) => [
      manifest.version,
      { ...manifest, dist: { tarball: url(tarball), integrity } },
    ]);
    const latest = versions.at(-1).manifest.version;
    response.writeHead(200, { 'content-type': 'application/json' });
    response.end(
      JSON.stringify({ name: path, 'dist-tags': { latest }, versions: Object.fromEntries(described) }),
    );
  });
  return new Promise((resolve, reject) => {
    server.on('error', reject);
    server.listen(port, '127.0.0.1', () => resolve(server));
  });
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const [, port, ...folders] = process.argv.slice(2);
  await startRegistry({ folders, port: Number(port) });
  console.log(`registry on http://127.0.0.1:${port}`);
}
