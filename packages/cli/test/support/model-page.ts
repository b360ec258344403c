import { existsSync, mkdtempSync, readFileSync, rmSync, statSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { extname, join, normalize } from 'node:path';
import { type BrowserContext, chromium, type Page } from 'playwright-core';
import { expect } from 'vitest';

const executablePath = ['/usr/bin/chromium', '/usr/bin/chromium-browser'].find(existsSync) ?? '';
export const hasChromium = executablePath !== '';
const args = [
  ...['--headless', '--no-sandbox', '--disable-quic', '--no-first-run'],
  ...['--disable-background-networking', '--disable-component-update', '--disable-sync'],
];

const types: Readonly<Record<string, string>> = {
  '.html': 'text/html',
  '.css': 'text/css',
  '.js': 'text/javascript',
  '.mjs': 'text/javascript',
  '.json': 'application/json',
  '.wasm': 'application/wasm',
};

/** The flags for a GPU: none, or one in software. */
const gpuFlags = {
  none: ['--disable-gpu'],
  software: ['--enable-unsafe-webgpu', '--use-webgpu-adapter=swiftshader', '--enable-unsafe-swiftshader'],
} as const;

/** Serves a folder as any static server does: files by their paths, and no more. */
async function serveFolder(folder: string): Promise<Server> {
  const server = createServer((request, response) => {
    const { pathname } = new URL(request.url!, 'http://localhost');
    const path = join(folder, normalize(pathname === '/' ? '/index.html' : pathname));
    if (!path.startsWith(folder) || statSync(path, { throwIfNoEntry: false })?.isFile() !== true) {
      response.writeHead(404).end();
      return;
    }
    response.writeHead(200, { 'content-type': types[extname(path)] ?? 'application/octet-stream' });
    response.end(readFileSync(path));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return server;
}

/** A folder in a browser that reaches nothing but the folder's server. */
export class ModelPage {
  readonly problems: string[] = [];
  /** The addresses outside of the folder's server that the page asked for. */
  readonly strangers: string[] = [];
  readonly #profile = mkdtempSync(join(tmpdir(), 'mtl-chromium-'));
  #server: Server | undefined;
  #browser: BrowserContext | undefined;

  /** `gpu`: default none. `search`: what follows the address, with its question mark. */
  async open(
    folder: string,
    { gpu = 'none', search = '' }: { readonly gpu?: keyof typeof gpuFlags; readonly search?: string } = {},
  ): Promise<Page> {
    this.#server = await serveFolder(folder);
    const origin = `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
    this.#browser = await chromium.launchPersistentContext(this.#profile, {
      executablePath,
      args: [...args, ...gpuFlags[gpu]],
    });
    await this.#browser.route(
      (url) => url.origin !== origin,
      async (route) => {
        this.strangers.push(route.request().url());
        await route.abort();
      },
    );
    const page = this.#browser.pages()[0]!;
    page.setDefaultTimeout(60_000);
    page.on('console', (message) => {
      if (message.type() === 'error') this.problems.push(message.text());
    });
    page.on('pageerror', ({ message }) => this.problems.push(message));
    await page.goto(`${origin}/${search}`);
    return page;
  }

  /** Closes the page. Its problems include violations of its policy. */
  async close(): Promise<void> {
    await this.#browser?.close();
    this.#server?.close();
    rmSync(this.#profile, { recursive: true, force: true });
    const { problems, strangers } = this;
    expect({ problems, strangers }).toEqual({ problems: [], strangers: [] });
  }
}
