import { expandHostList } from './slurm-host-list.js';
import { launchError, VariableReader, type Variables } from './variable-reader.js';

/** The program that started the processes of a job. `single`: the process was started without a launcher. */
export type Launcher = 'mtl' | 'torchrun' | 'variables' | 'slurm' | 'openmpi' | 'pmi' | 'single';

/** The position of a process in its job, according to the launcher's variables. */
export interface ProcessEnvironment {
  readonly launcher: Launcher;
  readonly rank: number;
  readonly worldSize: number;
  /** This process's rank among the processes of its host. */
  readonly localRank: number;
  readonly localWorldSize: number;
  /** The index of this process's host. Hosts are identified by their indices, never by names. */
  readonly nodeRank: number;
  readonly numNodes: number;
  /**
   * The address of rank 0, or of the launcher on the first host. It is loopback if all processes are on one
   * host.
   */
  readonly masterAddress: string;
  /** The port that the launcher has set; torchrun's agent itself listens on this port. */
  readonly masterPort: number;
  /**
   * The possible ports of the job's store, in the order of attempts. Other programs may use some of these
   * ports.
   */
  readonly storePorts: readonly number[];
  /** The process that runs the server of the store. */
  readonly storeHost: 'launcher' | 'rank 0';
  /** How often the launcher has restarted the job after a failure. */
  readonly restartCount: number;
}

const loopback = '127.0.0.1';
const defaultMasterPort = 29_500; // torchrun's

/** A launcher's description of a process, without the address and ports of the store. */
interface Placement
  extends Omit<
    ProcessEnvironment,
    'masterAddress' | 'masterPort' | 'storePorts' | 'storeHost' | 'restartCount'
  > {
  /** The address of the first host, if the launcher provides it. */
  readonly firstHost?: string;
  /** A name that distinguishes the job from other jobs on the host; used if no variable sets a port. */
  readonly job?: string;
}

/**
 * Reads the position of this process in its job from RANK and WORLD_SIZE (mtl run, torchrun), or from the
 * variables of Open MPI, Slurm or PMI (MPICH, Intel MPI). Without these variables, the job has a single
 * process.
 *
 * Open MPI is tried before Slurm because mpirun starts its daemons with srun. Processes that mpirun starts
 * then have the variables of both launchers, but only Open MPI's variables contain the ranks of the
 * processes.
 *
 * @throws ConfigurationError MTL_LAUNCH_ENVIRONMENT for variables that are incomplete or contradict each
 *   other
 */
export function readProcessEnvironment(variables: Variables): ProcessEnvironment {
  const reader = new VariableReader(variables);
  const placement = fromRank(reader) ?? fromOpenMpi(reader) ?? fromSlurm(reader) ?? fromPmi(reader) ?? alone;
  checkPlacement(placement);
  const { firstHost, job, ...place } = placement;
  const masterPort = reader.port('MASTER_PORT');
  const isOneHost = place.localWorldSize === place.worldSize;
  return Object.freeze({
    ...place,
    masterAddress: isOneHost ? loopback : chooseMasterAddress(reader, placement),
    masterPort: masterPort ?? defaultMasterPort,
    storePorts: chooseStorePorts(reader, placement),
    storeHost: place.launcher === 'mtl' ? 'launcher' : 'rank 0',
    restartCount:
      reader.firstCount(['MTL_RESTART_COUNT', 'TORCHELASTIC_RESTART_COUNT', 'SLURM_RESTART_COUNT']) ?? 0,
  });
}

const alone: Placement = {
  launcher: 'single',
  rank: 0,
  worldSize: 1,
  localRank: 0,
  localWorldSize: 1,
  nodeRank: 0,
  numNodes: 1,
};

/** Reads RANK and WORLD_SIZE, and torchrun's further variables. */
function fromRank(reader: VariableReader): Placement | undefined {
  const [rank, worldSize] = both(reader, 'RANK', 'WORLD_SIZE', 'start with mtl run or torchrun, or set both');
  if (rank === undefined || worldSize === undefined) return undefined;
  const launcher = reader.has('MTL_LAUNCHER')
    ? 'mtl'
    : reader.has('TORCHELASTIC_RUN_ID')
      ? 'torchrun'
      : 'variables';
  const [localRank, localWorldSize] = both(reader, 'LOCAL_RANK', 'LOCAL_WORLD_SIZE', 'set both, or neither');
  const place = { launcher, rank, worldSize } as const;
  if (localRank !== undefined && localWorldSize !== undefined) {
    return {
      ...place,
      ...blocks({ ...place, localRank, localWorldSize, nodeRank: reader.count('GROUP_RANK') }),
    };
  }
  // no variable describes hosts, so processes with a loopback address are assumed to be on one host
  const address = reader.text('MASTER_ADDR');
  if (address !== undefined && !isLoopback(address)) {
    throw launchError(
      `RANK and WORLD_SIZE with MASTER_ADDR=${address}, but nothing says which processes share a host`,
      {
        expected: 'LOCAL_RANK and LOCAL_WORLD_SIZE as well',
        remedy: 'start with mtl run or torchrun, which set them, or set them for every process',
      },
    );
  }
  return { ...place, localRank: rank, localWorldSize: worldSize, nodeRank: 0, numNodes: 1 };
}

/**
 * Reads the variables of Open MPI's mpirun. OMPI_COMM_WORLD_NODE_RANK is the process's rank on its node, not
 * the node's index.
 */
function fromOpenMpi(reader: VariableReader): Placement | undefined {
  const remedy = 'start with mpirun, which sets both';
  const [rank, worldSize] = both(reader, 'OMPI_COMM_WORLD_RANK', 'OMPI_COMM_WORLD_SIZE', remedy);
  if (rank === undefined || worldSize === undefined) return undefined;
  const [localRank, localWorldSize] = both(
    reader,
    ...(['OMPI_COMM_WORLD_LOCAL_RANK', 'OMPI_COMM_WORLD_LOCAL_SIZE', remedy] as const),
  );
  if (localRank === undefined || localWorldSize === undefined) {
    throw launchError('OMPI_COMM_WORLD_RANK without OMPI_COMM_WORLD_LOCAL_RANK', { remedy });
  }
  const job = reader.text('PMIX_NAMESPACE') ?? reader.text('OMPI_MCA_ess_base_jobid') ?? 'openmpi';
  const place = { launcher: 'openmpi', rank, worldSize } as const;
  return { ...place, ...blocks({ ...place, localRank, localWorldSize }), job: `openmpi ${job}` };
}

/**
 * Reads the variables of srun. Only a task of srun has SLURM_STEP_NUM_TASKS. The script of a batch job also
 * has SLURM_PROCID and SLURM_NTASKS, but it is a single process.
 */
function fromSlurm(reader: VariableReader): Placement | undefined {
  const worldSize = reader.count('SLURM_STEP_NUM_TASKS', 1);
  if (worldSize === undefined) return undefined;
  const required = (name: string): number => {
    const value = reader.count(name);
    if (value !== undefined) return value;
    throw launchError(`SLURM_STEP_NUM_TASKS=${worldSize} without ${name}`, {
      remedy: 'start the processes with srun, which sets both',
    });
  };
  const nodeRank = required('SLURM_NODEID');
  const numNodes = reader.firstCount(['SLURM_STEP_NUM_NODES', 'SLURM_NNODES'], 1) ?? 1;
  const tasks = reader.text('SLURM_STEP_TASKS_PER_NODE') ?? reader.text('SLURM_TASKS_PER_NODE');
  const perNode = tasks === undefined ? [worldSize] : expandTasksPerNode(tasks);
  const localWorldSize = perNode[nodeRank];
  const sum = perNode.reduce((total, count) => total + count, 0);
  if (localWorldSize === undefined || sum !== worldSize || perNode.length !== numNodes) {
    throw launchError(
      `SLURM_STEP_NUM_TASKS=${worldSize}, SLURM_STEP_NUM_NODES=${numNodes} and SLURM_STEP_TASKS_PER_NODE=${tasks} ` +
        `on SLURM_NODEID=${nodeRank} contradict each other`,
      { remedy: 'start with srun and leave its variables as they are' },
    );
  }
  const nodes = reader.text('SLURM_STEP_NODELIST') ?? reader.text('SLURM_JOB_NODELIST');
  return {
    launcher: 'slurm',
    rank: required('SLURM_PROCID'),
    worldSize,
    localRank: required('SLURM_LOCALID'),
    localWorldSize,
    nodeRank,
    numNodes,
    job: `slurm ${reader.text('SLURM_JOB_ID')} ${reader.text('SLURM_STEP_ID')}`,
    ...(nodes === undefined || numNodes === 1 ? {} : { firstHost: expandHostList(nodes)[0]! }),
  };
}

/** Reads the variables of mpiexec (MPICH and Intel MPI). */
function fromPmi(reader: VariableReader): Placement | undefined {
  const remedy = 'start with mpiexec, which sets both';
  const [rank, worldSize] = both(reader, 'PMI_RANK', 'PMI_SIZE', remedy);
  if (rank === undefined || worldSize === undefined) return undefined;
  const [localRank, localWorldSize] = both(reader, 'MPI_LOCALRANKID', 'MPI_LOCALNRANKS', remedy);
  const place = { launcher: 'pmi', rank, worldSize } as const;
  if (localRank === undefined || localWorldSize === undefined) {
    throw launchError('PMI_RANK and PMI_SIZE, but nothing says which processes share a host', {
      expected: 'MPI_LOCALRANKID and MPI_LOCALNRANKS as well',
      remedy:
        'start with mtl run, or set RANK, WORLD_SIZE, LOCAL_RANK and LOCAL_WORLD_SIZE for every process',
    });
  }
  return {
    ...place,
    ...blocks({ ...place, localRank, localWorldSize }),
    job: `pmi ${reader.text('PMI_JOBID')}`,
  };
}

/** Reads two variables that must be set together. */
function both(
  reader: VariableReader,
  first: string,
  second: string,
  remedy: string,
): readonly [number | undefined, number | undefined] {
  const values = [reader.count(first), reader.count(second, 1)] as const;
  if ((values[0] === undefined) === (values[1] === undefined)) return values;
  const [there, missing] = values[0] === undefined ? [second, first] : [first, second];
  throw launchError(`${there} is set and ${missing} is not`, { remedy });
}

/**
 * Computes the index of this process's host, and the number of hosts. The processes must be numbered host by
 * host, with the same number of processes on every host.
 */
function blocks(place: {
  readonly rank: number;
  readonly worldSize: number;
  readonly localRank: number;
  readonly localWorldSize: number;
  readonly nodeRank?: number | undefined;
}): Pick<Placement, 'localRank' | 'localWorldSize' | 'nodeRank' | 'numNodes'> {
  const { rank, worldSize, localRank, localWorldSize } = place;
  const isRegular = worldSize % localWorldSize === 0 && rank % localWorldSize === localRank;
  if (!isRegular) {
    throw launchError(
      `rank ${rank} of ${worldSize} is process ${localRank} of ${localWorldSize} on its host: not numbered host by host`,
      {
        expected: 'equally many processes on every host, the ranks of one host following each other',
        remedy:
          'start the same number of processes on every host, with mpirun --map-by slot --rank-by slot, or with mtl run',
      },
    );
  }
  const nodeRank = rank === localRank ? 0 : Math.floor(rank / localWorldSize);
  if (place.nodeRank !== undefined && place.nodeRank !== nodeRank) {
    throw launchError(
      `rank ${rank} with ${localWorldSize} processes a host is on host ${nodeRank}, GROUP_RANK says ${place.nodeRank}`,
      {
        remedy: 'leave RANK, LOCAL_WORLD_SIZE and GROUP_RANK as mtl run or torchrun set them',
      },
    );
  }
  return { localRank, localWorldSize, nodeRank, numNodes: worldSize / localWorldSize };
}

/** Expands Slurm's list of tasks per node: `2(x3),1` becomes 2, 2, 2, 1. */
function expandTasksPerNode(list: string): number[] {
  return list.split(',').flatMap((part) => {
    const [, count, times = '1'] = /^\s*(\d+)(?:\(x(\d+)\))?\s*$/.exec(part) ?? [];
    if (count !== undefined && Number(times) <= 65_536)
      return Array<number>(Number(times)).fill(Number(count));
    throw launchError(`SLURM_STEP_TASKS_PER_NODE=${list} cannot be read`, {
      expected: 'a list such as 2(x3),1',
      remedy: 'leave the variables of Slurm as they are',
    });
  });
}

function checkPlacement({ rank, worldSize, localRank, localWorldSize, nodeRank, numNodes }: Placement): void {
  const remedy = 'start with mtl run, torchrun, srun or mpirun, and leave the variables that they set';
  if (rank >= worldSize)
    throw launchError(`rank ${rank} of ${worldSize} processes`, {
      expected: `a rank below ${worldSize}`,
      remedy,
    });
  if (localWorldSize > worldSize || localRank >= localWorldSize || nodeRank >= numNodes) {
    throw launchError(
      `rank ${rank} of ${worldSize} as process ${localRank} of ${localWorldSize} on host ${nodeRank} of ${numNodes}`,
      { remedy },
    );
  }
}

function isLoopback(address: string): boolean {
  return address === 'localhost' || address === '::1' || /^127\.\d+\.\d+\.\d+$/.test(address);
}

function chooseMasterAddress(reader: VariableReader, { launcher, firstHost }: Placement): string {
  const address = reader.text('MASTER_ADDR') ?? firstHost;
  if (address !== undefined && !isLoopback(address)) return address;
  const [what, how] =
    launcher === 'openmpi'
      ? ['mpirun', 'mpirun -x MASTER_ADDR=ADDRESS']
      : ['the launcher', 'MASTER_ADDR=ADDRESS'];
  throw launchError(
    address === undefined
      ? `the processes are on several hosts and ${what} does not name the host of the first process`
      : `the processes are on several hosts and MASTER_ADDR is ${address}, which each takes for itself`,
    { expected: 'an address of the first host that the others reach', remedy: `pass ${how}` },
  );
}

function chooseStorePorts(
  reader: VariableReader,
  { launcher, job, worldSize }: Placement,
): readonly number[] {
  const explicit = reader.port('MTL_STORE_PORT');
  if (explicit !== undefined) return [explicit];
  if (worldSize === 1) return [0];
  const masterPort = reader.port('MASTER_PORT');
  if (launcher === 'mtl') {
    if (masterPort !== undefined) return [masterPort];
    throw launchError('MTL_LAUNCHER is set and MASTER_PORT is not', {
      remedy: 'start with mtl run, which sets both',
    });
  }
  if (masterPort === undefined && job !== undefined) return portsOfJob(job);
  return portsAfter(masterPort ?? defaultMasterPort);
}

const numCandidates = 8;
/**
 * The range of the store's ports. It is below the ports that Linux assigns to outgoing connections (32768 and
 * up), so that no connection occupies such a port by chance.
 */
const [lowest, highest] = [12_000, 32_000];

/** Returns the ports after `masterPort`. torchrun's agent itself listens on `masterPort`. */
function portsAfter(masterPort: number): number[] {
  const ports = Array.from({ length: numCandidates }, (_, index) => masterPort + 1 + index);
  return ports.filter((port) => port <= 65_535);
}

/**
 * Returns ports that are derived from the job's name. They are the same in all processes of a job, and
 * usually different for other jobs.
 */
function portsOfJob(job: string): number[] {
  // FNV-1a
  let hash = 0x811c9dc5;
  for (const byte of new TextEncoder().encode(job)) hash = Math.imul(hash ^ byte, 0x01000193) >>> 0;
  const numSlots = (highest - lowest) / numCandidates;
  const first = lowest + (hash % numSlots) * numCandidates;
  return Array.from({ length: numCandidates }, (_, index) => first + index);
}
