import { readdir } from 'node:fs/promises';
import { basename, join, resolve } from 'node:path';
import { isRun } from '@mtl/run-records';
import type { RunSummary } from './api-types.js';
import { RunFolder } from './run-folder.js';

/** The runs that have changed since the previous refresh, and the names of runs that no longer exist. */
export interface RunChanges {
  readonly changed: readonly RunSummary[];
  readonly removed: readonly string[];
}

/**
 * The runs in a directory. If the directory is itself a run folder, there is one run. Links are not followed.
 */
export class RunsFolder {
  readonly directory: string;
  readonly #runs = new Map<string, RunFolder>();
  readonly #listeners: Array<(changes: RunChanges) => void> = [];
  #refresh: Promise<unknown> = Promise.resolve();

  constructor(directory: string) {
    this.directory = resolve(directory);
  }

  /** The summaries of all runs, by name. */
  get summaries(): readonly RunSummary[] {
    return [...this.#runs.keys()].sort().map((id) => this.#runs.get(id)!.summary);
  }

  /**
   * Returns the run named `id` that the last `refresh` found. The name is only compared with the names of
   * known runs, and never used as a path.
   */
  run(id: string): RunFolder | undefined {
    return this.#runs.get(id);
  }

  /**
   * Adds a listener, which is called with the changes that each refresh finds. It does not matter which code
   * requested the refresh, because each change is found only once. The listener is not called after a refresh
   * without changes.
   */
  onChange(listener: (changes: RunChanges) => void): void {
    this.#listeners.push(listener);
  }

  /**
   * Reads the changes of all run folders, and calls all listeners. Concurrent calls run one after another.
   */
  async refresh(): Promise<void> {
    const refresh = this.#refresh.then(() => this.#look());
    this.#refresh = refresh.catch(() => undefined);
    await refresh;
  }

  async #look(): Promise<void> {
    const paths = await this.#paths();
    const removed = [...this.#runs.keys()].filter((id) => !paths.has(id));
    for (const id of removed) this.#runs.delete(id);
    const changed: RunSummary[] = [];
    try {
      for (const [id, path] of paths) {
        const run = this.#runs.get(id) ?? new RunFolder(path, id);
        if (await run.refresh()) changed.push(run.summary);
        this.#runs.set(id, run);
      }
    } finally {
      // listeners are called even if a folder could not be read, because the changes that were found will not
      // be found again
      if (changed.length + removed.length > 0) {
        for (const listener of this.#listeners) listener({ changed, removed });
      }
    }
  }

  /** Returns the paths of run folders, keyed by run name. */
  async #paths(): Promise<ReadonlyMap<string, string>> {
    const { directory } = this;
    if (isRun(directory)) return new Map([[basename(directory), directory]]);
    // a directory that was removed has no runs as long as it does not exist
    const entries = await readdir(directory, { withFileTypes: true }).catch(() => []);
    const folders = entries.filter((entry) => entry.isDirectory()).map(({ name }) => name);
    const paths = folders.map((name) => [name, join(directory, name)] as const);
    return new Map(paths.filter(([, path]) => isRun(path)));
  }
}
