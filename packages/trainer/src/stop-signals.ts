/** Watches for SIGINT and SIGTERM: the first asks for an orderly stop, a second ends the process at once. */
export class StopSignals {
  #received: NodeJS.Signals | undefined;
  readonly #handlers = new Map<NodeJS.Signals, () => void>();

  constructor(private readonly onFirst: (signal: NodeJS.Signals) => void = () => {}) {
    for (const signal of ['SIGINT', 'SIGTERM'] as const) {
      const handler = (): void => this.#receive(signal);
      this.#handlers.set(signal, handler);
      process.on(signal, handler);
    }
  }

  /** The signal that asked to stop, if one did. */
  get received(): NodeJS.Signals | undefined {
    return this.#received;
  }

  close(): void {
    for (const [signal, handler] of this.#handlers) process.off(signal, handler);
  }

  #receive(signal: NodeJS.Signals): void {
    // 128 plus the signal's number: what shells expect of a process that a signal ended
    if (this.#received !== undefined) process.exit(signal === 'SIGINT' ? 130 : 143);
    this.#received = signal;
    this.onFirst(signal);
  }
}
