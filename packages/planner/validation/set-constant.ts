export type Constants = Record<string, unknown>;

export interface Constant {
  readonly value: number;
  readonly source: string;
  readonly fitted?: boolean;
}

/** Replaces a constant of a profile. */
export function setConstant(constants: Constants, keys: readonly string[], value: Constant): void {
  const parent = keys.slice(0, -1).reduce((part, key) => part[key] as Constants, constants);
  parent[keys.at(-1)!] = value;
}
