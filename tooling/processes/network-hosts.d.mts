/** Two hosts on one machine: network namespaces joined by a cable. Needs root and iproute2. */
export interface NetworkHosts {
  /** The command that runs a program on host 0 or 1, in its place. */
  readonly prefixOf: (host: number) => readonly string[];
  /** The address of host 0 or 1. */
  readonly addressOf: (host: number) => string;
  /** The name of the interface, on both. */
  readonly socketInterface: string;
  /** Takes the cable out: packets get lost without an error. */
  readonly cut: () => void;
  readonly remove: () => void;
}

/** Why this machine cannot play two hosts, or undefined. */
export declare function networkHostsProblem(): string | undefined;

/** Names are unique to this process; what is not removed by hand goes with it. */
export declare function createNetworkHosts(): NetworkHosts;
