import { readdir } from 'node:fs/promises';
import { basename, join, resolve } from 'node:path';
import { isRun } from '@mtl/runs/records';
import type { RunSummary } from './api-types.js';
import { RunFolder } from './run-folder.js';

/** The runs that have changed since a look before. */
export interface RunChanges {
  readonly changed: readonly RunSummary[];
  readonly removed: readonly string[];
}

/** The runs in a directory, or the one that it is. Links are not followed out of it. */
export class RunsFolder {
  readonly directory: string;
  readonly #runs = new Map<string, RunFolder>();
  #refresh: Promise<unknown> = Promise.resolve();

  constructor(directory: string) {
    this.directory = resolve(directory);
  }

  /** By their names. */
  get summaries(): readonly RunSummary[] {
    return [...this.#runs.keys()].sort().map((id) => this.#runs.get(id)!.summary);
  }

  /** Returns the run of a name that the last `refresh` found. Names are compared, never made into paths. */
  run(id: string): RunFolder | undefined {
    return this.#runs.get(id);
  }

  /** Looks at all run folders again; calls follow one another. */
  async refresh(): Promise<RunChanges> {
    const refresh = this.#refresh.then(() => this.#look());
    this.#refresh = refresh.catch(() => undefined);
    return await refresh;
  }

  async #look(): Promise<RunChanges> {
    const paths = await this.#paths();
    const removed = [...this.#runs.keys()].filter((id) => !paths.has(id));
    for (const id of removed) this.#runs.delete(id);
    const changed: RunSummary[] = [];
    for (const [id, path] of paths) {
      const run = this.#runs.get(id) ?? new RunFolder(path, id);
      if (await run.refresh()) changed.push(run.summary);
      this.#runs.set(id, run);
    }
    return { changed, removed };
  }

  /** Folders of runs by their names. */
  async #paths(): Promise<ReadonlyMap<string, string>> {
    const { directory } = this;
    if (isRun(directory)) return new Map([[basename(directory), directory]]);
    // a folder that was removed has no runs, until it is there again
    const entries = await readdir(directory, { withFileTypes: true }).catch(() => []);
    const folders = entries.filter((entry) => entry.isDirectory()).map(({ name }) => name);
    const paths = folders.map((name) => [name, join(directory, name)] as const);
    return new Map(paths.filter(([, path]) => isRun(path)));
  }
}
