export interface EmulationCounts {
  readonly kernels: number;
  /** Calls that may wait for the device. */
  readonly synchronizations: number;
  readonly copiesToDevice: number;
  readonly copiesToHost: number;
  /** Of memory from the driver, and back to it: these wait, too. */
  readonly memoryCalls: number;
  /** Calls that enqueue something: kernels, matmuls, copies, graphs. */
  readonly enqueued: number;
  readonly graphLaunches: number;
}

/** Whether this process's emulated CUDA device keeps counts (`npm run dev -- test:cuda --emulation` does). */
export declare const hasEmulationCounts: boolean;

/** What the host has asked of the emulated CUDA device so far. */
export declare function emulationCounts(): EmulationCounts;

/** What `body` asks of it. */
export declare function countEmulated(body: () => void): EmulationCounts;
