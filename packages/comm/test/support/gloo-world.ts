import { type GroupOptions, type ProcessGroup, SingleProcessGroup, type World } from '@mtl/comm';
import { NativeJob } from '@mtl/comm/launcher';
import { FileStore } from '@mtl/comm/testing';
import { createGlooGroup } from '../../src/engines/gloo-engine.js';
import { joinHost } from '../../src/engines/local-engine.js';

export interface GlooWorldOptions {
  readonly rank: number;
  /** The host of every rank, by rank. */
  readonly hosts: readonly number[];
  /** The folder through which ranks find each other. */
  readonly directory: string;
  readonly timeoutMs: number;
  readonly joinTimeoutMs: number;
  readonly abortGraceMs: number;
  readonly socketInterface?: string | undefined;
}

/** A world whose groups all run over Gloo, with shared memory inside each host that has several ranks. */
export class GlooWorld implements World {
  readonly rank: number;
  readonly size: number;
  readonly group: ProcessGroup;
  readonly #options: GlooWorldOptions;
  readonly #store: FileStore;
  readonly #job: NativeJob;

  constructor(options: GlooWorldOptions) {
    const { rank, hosts, directory, abortGraceMs: graceMs } = options;
    this.rank = rank;
    this.size = hosts.length;
    this.#options = options;
    this.#store = new FileStore(directory);
    this.#job = new NativeJob(rank);
    const ranks = hosts.map((_, each) => each);
    joinHost({
      job: this.#job,
      ranks: ranks.filter((each) => hosts[each] === hosts[rank]),
      store: this.#store,
      key: `host/${hosts[rank]}`,
      timeoutMs: options.joinTimeoutMs,
      graceMs,
    });
    this.#meet(ranks);
    this.group = this.createGroup({ name: 'world', ranks });
  }

  createGroup({ name, ranks }: GroupOptions): ProcessGroup {
    const { hosts, timeoutMs, socketInterface } = this.#options;
    if (ranks.length === 1) return new SingleProcessGroup(name, this.rank);
    return createGlooGroup({
      job: this.#job,
      name,
      ranks,
      hosts: ranks.map((rank) => hosts[rank]!),
      store: this.#store,
      keyPrefix: 'test',
      timeoutMs,
      socketInterface,
    });
  }

  abort(reason: Error): void {
    this.#job.abort(reason);
  }

  [Symbol.dispose](): void {
    this.close();
  }

  close(): void {
    this.#job.close();
  }

  /**
   * Waits for the other ranks before a group is connected: processes start at different times on a busy
   * machine, and that difference must not count towards the time-out for connecting.
   */
  #meet(ranks: readonly number[]): void {
    this.#store.set(`here/${this.rank}`, new Uint8Array());
    for (const rank of ranks) this.#store.get(`here/${rank}`, this.#options.joinTimeoutMs);
  }
}
