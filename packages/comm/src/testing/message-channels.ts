import { type MessagePort, receiveMessageOnPort } from 'node:worker_threads';

/** A message from one in-memory rank to another. */
interface Message {
  /**
   * Identifies the message within its group. Messages of different groups may not arrive in the order in
   * which they were sent.
   */
  readonly tag: string;
  /** Operation, dtype and size, which must be equal on both sides. */
  readonly description: string;
  readonly values: ArrayBufferLike;
}

/** The channels between one rank and all ranks, as passed to its worker thread. */
export interface ChannelEnds {
  readonly ports: readonly (MessagePort | undefined)[];
  /** `numMessages[from]` is the number of messages that rank `from` has sent to this rank. */
  readonly numMessages: SharedArrayBuffer;
  /** The `numMessages` of each rank, by rank. */
  readonly counters: readonly SharedArrayBuffer[];
}

/** Ordered, unbounded, synchronous message passing between worker threads. */
export class MessageChannels {
  readonly #ends: ChannelEnds;
  readonly #rank: number;
  readonly #taken: number[];
  readonly #early: Map<string, Message>[];

  constructor(ends: ChannelEnds, rank: number) {
    this.#ends = ends;
    this.#rank = rank;
    this.#taken = ends.ports.map(() => 0);
    this.#early = ends.ports.map(() => new Map());
  }

  send(to: number, message: Message): void {
    this.#ends.ports[to]!.postMessage(message);
    const counter = new Int32Array(this.#ends.counters[to]!);
    Atomics.add(counter, this.#rank, 1);
    Atomics.notify(counter, this.#rank);
  }

  /** Waits for the message with the given tag. Returns undefined if it does not arrive within `timeoutMs`. */
  receive(from: number, tag: string, timeoutMs: number): Message | undefined {
    const deadline = performance.now() + timeoutMs;
    for (;;) {
      const message = this.#early[from]!.get(tag);
      if (message !== undefined) {
        this.#early[from]!.delete(tag);
        return message;
      }
      if (!this.#takeNext(from, deadline - performance.now())) return undefined;
    }
  }

  /** Returns true if the message with the given tag has arrived. */
  has(from: number, tag: string): boolean {
    while (this.#takeNext(from, 0)) if (this.#early[from]!.has(tag)) return true;
    return this.#early[from]!.has(tag);
  }

  /**
   * Moves the next message of a channel to the messages that have arrived but have not been requested yet.
   */
  #takeNext(from: number, timeoutMs: number): boolean {
    const counter = new Int32Array(this.#ends.numMessages);
    const seen = this.#taken[from]!;
    const deadline = performance.now() + timeoutMs;
    // the loop is needed because the sender's notify may come after its message has been taken, and then
    // wakes the wait for the next message too early
    while (Atomics.load(counter, from) === seen) {
      const left = deadline - performance.now();
      if (left <= 0 || Atomics.wait(counter, from, seen, left) === 'timed-out') return false;
    }
    const { message } = receiveMessageOnPort(this.#ends.ports[from]!) as { message: Message };
    this.#taken[from] = seen + 1;
    this.#early[from]!.set(message.tag, message);
    return true;
  }
}
