import { readFile } from 'node:fs/promises';
import { HttpProblem } from './http-problem.js';

/** What the page is made of, by the path that a browser asks for. */
const files = new Map([
  ['/', { file: 'page.html', type: 'text/html' }],
  ['/page.js', { file: 'page.js', type: 'text/javascript' }],
  ['/page.css', { file: 'page-style.css', type: 'text/css' }],
  ['/icon.svg', { file: 'icon.svg', type: 'image/svg+xml' }],
]);

/** The same for sources and for the build: both are one folder below the package. */
const folder = new URL('../dist/page/', import.meta.url);

/**
 * A file of the page; undefined for a path that is none.
 *
 * @throws HttpProblem 503 in a checkout where the page is not built
 */
export async function pageFile(path: string): Promise<{ type: string; body: Buffer } | undefined> {
  const found = files.get(path);
  if (found === undefined) return undefined;
  try {
    return { type: found.type, body: await readFile(new URL(found.file, folder)) };
  } catch {
    throw new HttpProblem(503, 'the page is not built yet: npm run bootstrap');
  }
}
