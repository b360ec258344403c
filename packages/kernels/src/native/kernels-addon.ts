/** The declaration of an operation. */
export interface OperationSchema {
  readonly name: string;
  readonly numOutputs: number;
  /** The names of the tensors, outputs first; a trailing `?` marks an optional tensor. */
  readonly tensors: readonly string[];
  readonly attributes: readonly string[];
}

/**
 * An operation's number of calls on this thread, the time of its kernels, and its counted FLOPs and bytes.
 */
export interface OperationStatistics {
  readonly name: string;
  readonly calls: number;
  readonly seconds: number;
  /** The floating-point operations of all calls, counted as in `countedFlops`. */
  readonly flops: number;
  /** Bytes of all given inputs and outputs. An accumulated output counts as written. */
  readonly bytesRead: number;
  readonly bytesWritten: number;
}

/**
 * Facts that the CUDA library finds without using a device. Versions are in CUDA's encoding (13000 for 13.0,
 * 0: no driver).
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

/** A native graph, memory of graphs, or mark. */
export interface NativePointer {
  readonly _brand: unique symbol;
}

/** The functions of the native addon. Everything else in this package is built on them. */
export interface KernelsAddon {
  /**
   * The array in which JavaScript passes lists to native calls, because native code reads JavaScript arrays
   * slowly. A list is written immediately before the call.
   */
  readonly callNumbers: Float64Array;

  /** Returns the handle of a new tensor. The shape is in `callNumbers`, as for a view. */
  createTensor(device: number, dtype: number, rank: number): number;
  createView(handle: number, offset: number, rank: number): number;
  /** Returns the handle of a strided view. The shape and then the strides are in `callNumbers`. */
  createStridedView(handle: number, offset: number, rank: number): number;
  release(handle: number): void;
  write(handle: number, source: ArrayBufferView): void;
  read(handle: number, destination: ArrayBufferView): void;
  /** Returns the memory of a host tensor, valid until `takeBack`; the tensor must live until then. */
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
   * Runs an operation. `callNumbers` holds the handles of all tensors of the schema, 0 for an omitted tensor,
   * then all attributes.
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
    /** Paths and names of cuBLASLt, one per line. */
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
   * Sets the choices of a device, one per line: problem, space, algorithm. With `timesOthers`, problems
   * without a choice are timed.
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

/** The kernels, and the file and type of their addon. */
export interface LoadedKernels {
  readonly addon: KernelsAddon;
  readonly path: string;
  readonly isWebAssembly: boolean;
}

/**
 * The code that computes a matmul on device `cpu`: our kernels with packed operands (`blocks`) or for few
 * rows, or oneDNN.
 */
export type MatmulKernel = 'blocks' | 'few-rows' | 'oneDNN';

/** Bytes as counted by the caching allocator of a device. */
export interface MemoryStatistics {
  /** Bytes in use now. */
  readonly bytesInUse: number;
  /** The highest `bytesInUse` since the last `resetPeakMemory`. */
  readonly peakBytes: number;
  /** The bytes in use and the bytes cached for reuse, together. */
  readonly bytesReserved: number;
  /** The number of live blocks. */
  readonly numAllocations: number;
}
