import { existsSync, statSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { ConfigurationError } from '@mtl/errors';
import { Access } from './access.js';
import { answerApi } from './answer-api.js';
import { EventStreams } from './event-streams.js';
import { HttpProblem, respond } from './respond.js';
import { RunsFolder } from './runs-folder.js';

export interface OpenDashboardOptions {
  /** A directory of runs, or the folder of a single run. */
  readonly directory: string;
  /**
   * The address to listen on. Default: 127.0.0.1. On addresses other than loopback, requests need the token.
   */
  readonly host?: string;
  /** The port to listen on; 0 for any free port. Default: 4242. */
  readonly port?: number;
  /** Milliseconds between two polls of the directory while a page is open. Default: 1000. */
  readonly pollMs?: number;
}

/** A running server of the page. */
export interface Dashboard {
  /** The address of the page, including the token if it is needed. */
  readonly url: string;
  /** The number of runs found at the start. */
  readonly numRuns: number;
  /** Ends the server and all connections to it. */
  close(): Promise<void>;
  [Symbol.asyncDispose](): Promise<void>;
}

/**
 * Serves a page that shows the training runs in a directory, during the runs and afterwards. The server
 * writes nothing, and reads nothing outside of the directory.
 *
 * @throws ConfigurationError MTL_RUN_NONE for a directory that does not exist; MTL_WATCH_PORT for a port that
 *   is taken or not allowed; MTL_WATCH_HOST for an address that does not belong to this machine
 */
export async function openDashboard(options: OpenDashboardOptions): Promise<Dashboard> {
  const { directory, host = '127.0.0.1', port = 4242, pollMs = 1000 } = options;
  checkDirectory(directory);
  const folder = new RunsFolder(directory);
  await folder.refresh();
  const streams = new EventStreams(folder, { pollMs });
  const access = new Access(host);
  const server = createServer((request, response) => {
    void answer(request, response, { access, folder, streams });
  });
  await listen(server, { host, port });
  const address = server.address() as AddressInfo;
  const name = address.family === 'IPv6' ? `[${address.address}]` : address.address;
  const close = async (): Promise<void> => {
    streams.close();
    const closed = new Promise<void>((resolve) => server.close(() => resolve()));
    // unfinished answers have 500 ms to be read by clients
    const limit = setTimeout(() => server.closeAllConnections(), 500);
    await closed;
    clearTimeout(limit);
  };
  return {
    url: `http://${name}:${address.port}${access.base}`,
    numRuns: folder.summaries.length,
    close,
    [Symbol.asyncDispose]: close,
  };
}

function checkDirectory(directory: string): void {
  if (existsSync(directory) && statSync(directory).isDirectory()) return;
  const what = existsSync(directory) ? 'not a directory' : 'no such directory';
  throw new ConfigurationError('MTL_RUN_NONE', `${directory}: ${what}`, {
    expected: 'a directory of runs, or the folder of one: what --save of a training run named',
    remedy: `start a run, or make the directory first (mkdir -p ${directory}): the page shows runs as they appear`,
  });
}

async function listen(
  server: Server,
  { host, port }: { readonly host: string; readonly port: number },
): Promise<void> {
  try {
    await new Promise<void>((resolve, reject) => {
      server.once('error', reject);
      server.listen({ host, port }, resolve);
    });
  } catch (cause) {
    const { code = '', message } = cause as NodeJS.ErrnoException;
    if (['EADDRINUSE', 'EACCES'].includes(code)) {
      const why =
        code === 'EACCES'
          ? 'may not be listened on by this user'
          : 'is taken by another program, or by another mtl watch';
      throw new ConfigurationError('MTL_WATCH_PORT', `port ${port} of ${host} ${why}`, {
        expected: 'a port that is free, above 1023',
        remedy: '--port 0 takes one that is free',
        cause,
      });
    }
    throw new ConfigurationError('MTL_WATCH_HOST', `--host ${host}: ${message}`, {
      expected: 'an address of this machine: 127.0.0.1, or 0.0.0.0 for all addresses',
      cause,
    });
  }
}

interface DashboardResources {
  readonly access: Access;
  readonly folder: RunsFolder;
  readonly streams: EventStreams;
}

async function answer(
  request: IncomingMessage,
  response: ServerResponse,
  { access, folder, streams }: DashboardResources,
): Promise<void> {
  try {
    const asked = access.check(request);
    if (asked.pathname === '/api/events') await streams.add(response);
    else respond(response, (await pageFile(asked.pathname)) ?? (await answerApi(folder, asked)));
  } catch (error) {
    const problem = error instanceof HttpProblem ? error : new HttpProblem(500, (error as Error).message);
    if (response.headersSent) response.destroy();
    else respond(response, { status: problem.status, type: 'text/plain', body: `${problem.message}\n` });
  }
}

/** The files of the page, keyed by the path in requests. */
const files = new Map([
  ['/', { file: 'page.html', type: 'text/html' }],
  ['/page.js', { file: 'page.js', type: 'text/javascript' }],
  ['/page.css', { file: 'page-style.css', type: 'text/css' }],
  ['/icon.svg', { file: 'icon.svg', type: 'image/svg+xml' }],
]);

/**
 * The folder of the built page. The path is right for sources and for the build, because both are one folder
 * below the package.
 */
const folder = new URL('../dist/page/', import.meta.url);

/**
 * Reads a file of the page; returns undefined for other paths.
 *
 * @throws HttpProblem 503 in a checkout where the page is not built
 */
async function pageFile(path: string): Promise<{ type: string; body: Buffer } | undefined> {
  const found = files.get(path);
  if (found === undefined) return undefined;
  try {
    return { type: found.type, body: await readFile(new URL(found.file, folder)) };
  } catch {
    throw new HttpProblem(503, 'the page is not built yet: npm run bootstrap');
  }
}
