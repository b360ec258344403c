import type { RunsEvent } from '../src/api-types.js';

/** Milliseconds between two requests of a hidden page. */
export const glanceMs = 15_000;

/** The part of a document that is needed here. */
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
  /** Called with the answer of `look`. */
  readonly onRuns: (event: RunsEvent) => void;
}

/**
 * Keeps the stream of events open while the page is visible: a browser has few connections, and a hidden page
 * keeps none. A hidden page requests the runs now and then instead, since the title of its tab stays visible.
 */
export function listenWhileVisible({ page, open, look, onRuns }: Listening): void {
  let stream: { close(): void } | undefined;
  let glances: ReturnType<typeof setInterval> | undefined;
  const glance = async (): Promise<void> => {
    try {
      const { directory, runs } = await look();
      if (page.hidden) onRuns({ directory, runs, removed: [], isAll: true });
    } catch {
      // ignored: the stream reports a lost server as soon as the page is visible
    }
  };
  const update = (): void => {
    if (page.hidden) {
      // a page that was opened in the background knows no run yet, and its tab has no title
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
