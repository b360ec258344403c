import type { ServerResponse } from 'node:http';
import type { RunsEvent } from './api-types.js';
import { beginEvents } from './respond.js';
import type { RunsFolder } from './runs-folder.js';

/** Milliseconds between empty lines, which keep proxies from closing an idle stream. */
const keepAliveMs = 15_000;

/**
 * Sends the changes in a directory of runs to pages, as server-sent events. The directory is polled only
 * while a page listens.
 */
export class EventStreams {
  readonly #folder: RunsFolder;
  readonly #pollMs: number;
  readonly #open = new Set<ServerResponse>();
  #timer: NodeJS.Timeout | undefined;
  #lastWrite = 0;
  #isClosed = false;

  constructor(folder: RunsFolder, { pollMs }: { readonly pollMs: number }) {
    this.#folder = folder;
    this.#pollMs = pollMs;
    folder.onChange(({ changed, removed }) =>
      this.#send(this.#open, { runs: changed, removed, isAll: false }),
    );
  }

  /**
   * Sends all runs to a page, and from then on each run that changes, until the page closes the connection.
   */
  async add(response: ServerResponse): Promise<void> {
    beginEvents(response);
    response.on('close', () => this.#remove(response));
    await this.#poll();
    if (response.destroyed) return;
    this.#send([response], { runs: this.#folder.summaries, removed: [], isAll: true });
    // closed during the poll, when this response was not among the open ones yet
    if (this.#isClosed) return void response.end();
    this.#open.add(response);
    this.#schedule();
  }

  /** Ends all streams. A page that is being added still gets the runs. */
  close(): void {
    this.#isClosed = true;
    clearTimeout(this.#timer);
    for (const response of this.#open) response.end();
    this.#open.clear();
  }

  [Symbol.dispose](): void {
    this.close();
  }

  #remove(response: ServerResponse): void {
    this.#open.delete(response);
    if (this.#open.size > 0) return;
    clearTimeout(this.#timer);
    this.#timer = undefined;
  }

  #schedule(): void {
    if (this.#timer !== undefined || this.#open.size === 0) return;
    this.#timer = setTimeout(async () => {
      await this.#poll();
      this.#timer = undefined;
      this.#schedule();
    }, this.#pollMs);
  }

  /**
   * Reads the folder again. If the folder cannot be read, the known runs stay, because the folder may be
   * readable later.
   */
  async #poll(): Promise<void> {
    try {
      await this.#folder.refresh();
    } catch (error) {
      process.emitWarning(`${this.#folder.directory}: ${(error as Error).message}`, {
        code: 'MTL_WATCH_READ',
      });
    }
    if (performance.now() - this.#lastWrite < keepAliveMs) return;
    this.#lastWrite = performance.now();
    for (const response of this.#open) response.write(':\n\n');
  }

  #send(to: Iterable<ServerResponse>, change: Omit<RunsEvent, 'directory'>): void {
    const event: RunsEvent = { directory: this.#folder.directory, ...change };
    for (const response of to) response.write(`data: ${JSON.stringify(event)}\n\n`);
  }
}
