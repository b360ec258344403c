/** The declaration of an operation. */
export interface OperationSchema {
  readonly name: string;
  readonly numOutputs: number;
  /** The names of the tensors, outputs first. A trailing `?` marks an optional tensor. */
  readonly tensors: readonly string[];
  readonly attributes: readonly string[];
}

/**
 * How often an operation was called on this thread, how long its kernels took, and its counted FLOPs and
 * bytes.
 */
export interface OperationStatistics {
  readonly name: string;
  readonly calls: number;
  readonly seconds: number;
  /** The floating-point operations of all calls, counted in the same way as in `countedFlops`. */
  readonly flops: number;
  /**
   * The number of bytes in all given inputs; `bytesWritten` is the number of bytes in all given outputs. An
   * accumulated output counts as written.
   */
  readonly bytesRead: number;
  readonly bytesWritten: number;
}

/**
 * Information that the CUDA library obtains without using a device. Versions are in CUDA's encoding (13000
 * for 13.0; 0 if there is no driver).
 */
interface NativeCudaProbe {
  readonly driverVersion: number;
  readonly runtimeVersion: number;
  readonly devices: readonly {
    readonly name: string;
    readonly computeCapability: number;
    readonly numMultiprocessors: number;
    readonly memoryBytes: number;
  }[];
}

/** A pointer to a native object: a graph, a memory for graphs, or a mark. */
export interface NativePointer {
  readonly _brand: unique symbol;
}

/** The functions of the native addon, on which all of this package is built. */
export interface KernelsAddon {
  /**
   * The array in which JavaScript passes lists to native calls, because native code reads JavaScript arrays
   * slowly. JavaScript must write a list immediately before the call.
   */
  readonly callNumbers: Float64Array;

  /** Returns the handle of a new tensor. `callNumbers` must contain the shape, as for a view. */
  createTensor(device: number, dtype: number, rank: number): number;
  createView(handle: number, offset: number, rank: number): number;
  /** Returns the handle of a strided view. `callNumbers` must contain the shape, followed by the strides. */
  createStridedView(handle: number, offset: number, rank: number): number;
  release(handle: number): void;
  write(handle: number, source: ArrayBufferView): void;
  read(handle: number, destination: ArrayBufferView): void;
  /**
   * Returns the memory of a host tensor. It is valid until `takeBack`, and the tensor must exist until then.
   */
  lend(handle: number): Uint8Array;
  takeBack(memory: Uint8Array): void;
  zero(handle: number): void;
  /** Computes target[column, row] = source[rowOrder[row], columnOrder[column]]. */
  transpose(
    target: ArrayBufferView,
    source: ArrayBufferView,
    numRows: number,
    numColumns: number,
    elementBytes: number,
    rowOrder: Int32Array | undefined,
    columnOrder: Int32Array | undefined,
  ): void;
  numLiveTensors(): number;
  setPoison(enabled: boolean): void;
  readonly tensorApi: unknown;

  /**
   * Runs an operation. `callNumbers` must contain the handles of all tensors in the schema (0 for an omitted
   * tensor), followed by all attributes.
   */
  run(operation: number): void;
  operations(): OperationSchema[];
  supports(operation: number, device: number): boolean;
  countedFlops(): number;
  resetCountedFlops(): void;
  operationStatistics(): OperationStatistics[];

  memoryStatistics(device: number): MemoryStatistics;
  resetPeakMemory(device: number): void;
  trimMemory(device: number): void;
  limitMemory(device: number, bytes: number): void;
  synchronize(device: number): void;
  pushRange(device: number, name: string): void;
  popRange(device: number): void;
  isAvailable(device: number): boolean;
  probeCuda(libraryPath: string): NativeCudaProbe;
  openCuda(options: {
    readonly libraryPath: string;
    readonly deviceIndex: number;
    /** Possible paths and names of the cuBLASLt library, one per line. */
    readonly cublasLtCandidates: string;
    readonly allowTf32: boolean;
  }): NativeCudaProbe & { deviceIndex: number; cublasLtPath: string; cublasLtVersion: number };
  supportsGraphs(device: number): boolean;
  createGraphMemory(device: number): NativePointer;
  destroyGraphMemory(device: number, memory: NativePointer): void;
  enterGraphMemory(device: number, memory: NativePointer): void;
  leaveGraphMemory(device: number): void;
  beginCapture(device: number): void;
  endCapture(device: number, isWanted: boolean): NativePointer | undefined;
  launchGraph(device: number, graph: NativePointer): void;
  destroyGraph(device: number, graph: NativePointer): void;
  /** Throws MTL_CAPTURE while this thread records a graph of the device. */
  refuseInGraph(device: number, what: string): void;
  supportsMarks(device: number): boolean;
  markDevice(device: number): NativePointer;
  startRead(device: number, handle: number): NativePointer;
  readMark(device: number, mark: NativePointer, destination: ArrayBufferView): void;
  millisecondsBetween(device: number, mark: NativePointer, earlier: NativePointer): number;
  destroyMark(device: number, mark: NativePointer): void;
  /**
   * Sets a device's choices of matmul algorithms, one per line: the problem, a space, and the algorithm. If
   * `timesOthers` is true, problems without a choice are timed.
   */
  setMatmulChoices(device: number, lines: string, timesOthers: boolean): void;
  matmulChoices(device: number): string;
  lastMatmulKernel(): MatmulKernel | undefined;
  /** Returns the largest power of two, up to 256, that divides a tensor's address. */
  alignmentOf(handle: number): number;
  cudaStreams(): { deviceIndex: number; compute: bigint; copy: bigint; communication: bigint };
  setNumThreads(count: number, pin: boolean): void;
  setInstructionSet(name: string): void;
  setMatmulLibrary(library: number): void;
  host(): {
    numThreads: number;
    mostThreads: number;
    compiledInstructionSets: string[];
    usableInstructionSets: string[];
    detectedInstructionSet: string;
    instructionSet: string;
    multipliesBfloat16: boolean;
    onednnVersion: string;
  };
}

/** The kernels, the file from which they were loaded, and true in `isWebAssembly` if they are WebAssembly. */
export interface LoadedKernels {
  readonly addon: KernelsAddon;
  readonly path: string;
  readonly isWebAssembly: boolean;
}

/**
 * The code that computes a matmul on device `cpu`: our kernels with packed operands (`blocks`), our kernels
 * for few rows (`few-rows`), or oneDNN.
 */
export type MatmulKernel = 'blocks' | 'few-rows' | 'oneDNN';

/** Byte counts of a device's caching allocator. */
export interface MemoryStatistics {
  /** Bytes in use now. */
  readonly bytesInUse: number;
  /** The highest `bytesInUse` since the last `resetPeakMemory`. */
  readonly peakBytes: number;
  /** The sum of the bytes in use and the bytes cached for reuse. */
  readonly bytesReserved: number;
  /** The number of live blocks. */
  readonly numAllocations: number;
}
