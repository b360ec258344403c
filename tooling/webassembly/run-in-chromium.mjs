import { readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { build } from 'esbuild';
import { openChromium } from '../processes/chromium.mjs';
import { workspaceConditions } from '../vitest/workspace-conditions.mjs';

/** The headers without which a page cannot share memory with its workers. */
const isolation = {
  'cross-origin-opener-policy': 'same-origin',
  'cross-origin-embedder-policy': 'require-corp',
};

/** The page: it starts the worker with its own query, and passes on what the worker says. */
const page = `<!doctype html><title>worker</title><script type="module">
addEventListener('error', ({ message }) => answer({ error: message }));
const worker = new Worker('/worker.js' + location.search, { type: 'module' });
worker.onmessage = ({ data }) => answer(data);
worker.onerror = ({ message }) => answer({ error: message });
</script>`;

/**
 * Bundles programs for a page. Imports of Node's modules that nothing in the page needs are left out, as
 * bundlers do with modules without side effects.
 *
 * @param {Readonly<Record<string, string>>} entries the programs, by the name of their bundle
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
 * Runs a worker in a page of Chromium, and returns what the worker says first. The page is served on the
 * loopback, and reaches nothing else.
 *
 * @param {object} options
 * @param {Readonly<Record<string, string>>} options.entries programs to bundle; `worker` is the one that runs
 * @param {Readonly<Record<string, string>>} [options.files] other files, by their path on the server
 * @param {string} [options.query] what the worker reads of its address
 * @param {boolean} [options.isIsolated] false: without the headers that let workers share memory
 * @param {number} [options.timeoutMs]
 * @throws Error with the error of the page, or when it says nothing in time
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
