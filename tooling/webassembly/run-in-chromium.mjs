import { readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { build } from 'esbuild';
import { openChromium } from '../processes/chromium.mjs';
import { workspaceConditions } from '../vitest/workspace-conditions.mjs';

/** The HTTP headers that a page needs to share memory with its workers. */
const isolation = {
  'cross-origin-opener-policy': 'same-origin',
  'cross-origin-embedder-policy': 'require-corp',
};

/**
 * The page. It starts the worker with the page's own query string, and passes the worker's messages to
 * `answer`.
 */
const page = `<!doctype html><title>worker</title><script type="module">
addEventListener('error', ({ message }) => answer({ error: message }));
const worker = new Worker('/worker.js' + location.search, { type: 'module' });
worker.onmessage = ({ data }) => answer(data);
worker.onerror = ({ message }) => answer({ error: message });
</script>`;

/**
 * Bundles the programs in `entries` for a page. Imports of Node's modules are left out if nothing in the page
 * uses them, as bundlers do with modules without side effects.
 *
 * @param {Readonly<Record<string, string>>} entries the paths of the programs, by bundle name
 * @returns {Promise<ReadonlyMap<string, Uint8Array>>} the bundles, by their path on the server
 * @throws Error if a bundle still imports a module
 */
export async function bundleForPage(entries) {
  const { metafile, outputFiles } = await build({
    entryPoints: entries,
    outdir: '/',
    bundle: true,
    write: false,
    format: 'esm',
    platform: 'browser',
    target: 'es2022',
    conditions: workspaceConditions,
    metafile: true,
    logLevel: 'silent',
    plugins: [
      {
        name: 'modules of Node',
        setup: ({ onResolve }) =>
          onResolve({ filter: /^node:/ }, ({ path }) => ({ path, external: true, sideEffects: false })),
      },
    ],
  });
  const left = Object.values(metafile.outputs).flatMap(({ imports }) => imports.map(({ path }) => path));
  if (left.length > 0) throw new Error(`a page cannot import ${[...new Set(left)].join(', ')}`);
  return new Map(outputFiles.map(({ path, contents }) => [path, contents]));
}

/**
 * Runs a worker in a Chromium page, and returns the worker's first message. The page is served on the
 * loopback interface, and can reach nothing else.
 *
 * @param {object} options
 * @param {Readonly<Record<string, string>>} options.entries programs to bundle; the page runs only `worker`
 * @param {Readonly<Record<string, string>>} [options.files] paths of further files to serve, by their path on
 * the server
 * @param {string} [options.query] the query string of the worker's address
 * @param {boolean} [options.isIsolated] false to omit the headers that let workers share memory
 * @param {number} [options.timeoutMs]
 * @throws Error with the page's error message, or if the worker sends no message in time
 */
export async function runInChromium({
  entries,
  files = {},
  query = '',
  isIsolated = true,
  timeoutMs = 120_000,
}) {
  const types = { js: 'text/javascript', wasm: 'application/wasm' };
  const served = new Map([['/', page], ...(await bundleForPage(entries))]);
  for (const [path, file] of Object.entries(files)) served.set(path, readFileSync(file));
  let answered;
  const answer = new Promise((resolve) => {
    answered = resolve;
  });
  const server = createServer((request, response) => {
    const { pathname } = new URL(request.url, 'http://127.0.0.1');
    const content = served.get(pathname);
    const type = types[pathname.split('.').at(-1)] ?? 'text/html';
    response.writeHead(content === undefined ? 404 : 200, {
      'content-type': type,
      ...(isIsolated ? isolation : {}),
    });
    response.end(content);
  });
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  const browser = await openChromium().catch((error) => {
    server.close();
    throw error;
  });
  const tooLate = setTimeout(() => answered({ error: `no answer in ${timeoutMs / 1000} s` }), timeoutMs);
  browser.on('close', () => answered({ error: 'Chromium ended' }));
  try {
    const [tab] = browser.pages();
    await tab.exposeFunction('answer', answered);
    await tab.goto(`http://127.0.0.1:${server.address().port}/${query}`);
    const { error, ...said } = await answer;
    if (error !== undefined) throw new Error(error);
    return said;
  } finally {
    clearTimeout(tooLate);
    await browser.close();
    server.close();
    server.closeAllConnections();
  }
}
