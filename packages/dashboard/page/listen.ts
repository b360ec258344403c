import type { RunsEvent } from '../src/api-types.js';

/** Milliseconds between two requests while the page is hidden. */
export const glanceMs = 15_000;

/** The properties of a document that `listenWhileVisible` uses. */
export interface Visibility {
  readonly hidden: boolean;
  addEventListener(type: 'visibilitychange', listener: () => void): void;
}

export interface Listening {
  readonly page: Visibility;
  /** Opens the stream of events. */
  readonly open: () => { close(): void };
  /** Requests all runs once. */
  readonly look: () => Promise<Pick<RunsEvent, 'directory' | 'runs'>>;
  /** Receives the answer of `look`. */
  readonly onRuns: (event: RunsEvent) => void;
}

/**
 * Keeps the stream of events open while the page is visible. A hidden page has no stream, because browsers
 * limit the number of connections. It instead requests the runs at intervals, because the title of its tab,
 * which depends on the runs, remains visible.
 */
export function listenWhileVisible({ page, open, look, onRuns }: Listening): void {
  let stream: { close(): void } | undefined;
  let glances: ReturnType<typeof setInterval> | undefined;
  const glance = async (): Promise<void> => {
    try {
      const { directory, runs } = await look();
      if (page.hidden) onRuns({ directory, runs, removed: [], isAll: true });
    } catch {
      // errors are ignored, because the stream reports that the server is lost as soon as the page is visible
    }
  };
  const update = (): void => {
    if (page.hidden) {
      // a page that was opened in the background does not know the runs yet, so it requests the runs
      // immediately for the title of its tab
      const knowsRuns = stream !== undefined;
      stream?.close();
      stream = undefined;
      if (glances !== undefined) return;
      glances = setInterval(() => void glance(), glanceMs);
      if (!knowsRuns) void glance();
      return;
    }
    clearInterval(glances);
    glances = undefined;
    stream ??= open();
  };
  page.addEventListener('visibilitychange', update);
  update();
}
