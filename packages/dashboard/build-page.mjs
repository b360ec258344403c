import { copyFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { build as bundle } from 'esbuild';

const folder = (path) => fileURLToPath(new URL(path, import.meta.url));

/**
 * Bundles the page into the folder `page` of a build: page.html, page.js, page.css, and the license of the
 * bundled package.
 *
 * @param {string} build the folder of the build
 * @returns {Promise<void>}
 */
export async function buildPage(build) {
  const out = resolve(build, 'page');
  await bundle({
    entryPoints: { page: folder('page/main.ts'), 'page-style': folder('page/page.css') },
    outdir: out,
    bundle: true,
    minify: true,
    format: 'iife',
    platform: 'browser',
    target: ['chrome120', 'firefox121', 'safari17'],
    legalComments: 'inline',
    logLevel: 'warning',
  });
  for (const file of ['page.html', 'icon.svg']) copyFileSync(folder(`page/${file}`), join(out, file));
  const uplot = dirname(createRequire(import.meta.url).resolve('uplot/package.json'));
  copyFileSync(join(uplot, 'LICENSE'), join(out, 'LICENSE-uPlot.txt'));
}
