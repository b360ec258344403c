import { readFileSync, statSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { extname, join, normalize } from 'node:path';
import { openChromium } from '@mtl/tooling/chromium';
import type { BrowserContext, Page } from 'playwright-core';
import { expect } from 'vitest';

const types: Readonly<Record<string, string>> = {
  '.html': 'text/html',
  '.css': 'text/css',
  '.js': 'text/javascript',
  '.mjs': 'text/javascript',
  '.json': 'application/json',
  '.wasm': 'application/wasm',
};

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
  #server: Server | undefined;
  #browser: BrowserContext | undefined;

  /** `gpu`: default none. `search`: what follows the address, with its question mark. */
  async open(
    folder: string,
    { gpu = 'none', search = '' }: { readonly gpu?: 'none' | 'software'; readonly search?: string } = {},
  ): Promise<Page> {
    this.#server = await serveFolder(folder);
    const origin = `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
    this.#browser = await openChromium({ gpu });
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
    const { problems, strangers } = this;
    expect({ problems, strangers }).toEqual({ problems: [], strangers: [] });
  }
}
