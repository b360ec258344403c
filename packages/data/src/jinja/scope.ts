import type { Value } from './values.js';

/** Names and their values: what an inner scope does not have, those around it may. */
export class Scope {
  readonly #around: Scope | undefined;
  readonly #values: Map<string, Value>;

  constructor(around?: Scope, values: Iterable<readonly [string, Value]> = []) {
    this.#around = around;
    this.#values = new Map(values);
  }

  get(name: string): Value | undefined {
    const own = this.#values.get(name);
    return own === undefined ? this.#around?.get(name) : own;
  }

  set(name: string, value: Value): void {
    this.#values.set(name, value);
  }
}
