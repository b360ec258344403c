/** A class or a function by name. It is never imported and never called. */
export class PickledGlobal {
  readonly module: string;
  readonly name: string;

  constructor(module: string, name: string) {
    this.module = module;
    this.name = name;
  }

  /** `torch.float32` */
  get path(): string {
    return `${this.module}.${this.name}`;
  }
}

/** What a pickle would make by a call, as data: what would be called, with which arguments and state. */
export class PickledObject {
  /** The path of the class or function; empty where the pickle computes it. */
  readonly path: string;
  readonly parameters: readonly unknown[];
  /** The attributes of an instance: mostly a Map by name. */
  state: unknown = undefined;

  constructor(path: string, parameters: readonly unknown[]) {
    this.path = path;
    this.parameters = parameters;
  }

  /** An attribute of its state. */
  attribute(name: string): unknown {
    return this.state instanceof Map ? this.state.get(name) : undefined;
  }
}
