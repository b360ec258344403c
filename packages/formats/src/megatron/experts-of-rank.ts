import { type Dtype, dtypeBytes, type TorchFile, type TorchTensor } from '@mtl/checkpoint';
import { transpose } from '@mtl/kernels';
import { megatronError } from './megatron-files.js';
import { parseExpertTensor } from './megatron-names.js';
import type { TensorSplit } from './merge-shards.js';

/** All experts of a tensor on one rank. Each expert has a matrix [outputs, inputs] or a vector. */
interface ExpertsOfRank {
  readonly path: string;
  readonly numExperts: number;
  /** The shape of a single expert's tensor. */
  readonly shape: readonly number[];
  readonly dtype: Dtype;
  /** Calls `use` with each expert's bytes in turn. The bytes are valid only during the call. */
  read(use: (bytes: Uint8Array, expert: number) => void): Promise<void>;
}

/**
 * Returns a rank's experts. They are stored as separate tensors, as one tensor [E, ...], or as `weight1` and
 * `weight2` of grouped experts, whose shapes are [inputs, experts * outputs] and [experts * inputs, outputs],
 * but whose values are in the order [experts, inputs, outputs].
 *
 * @param name our name for the tensor that contains all experts
 * @throws CheckpointError MTL_MEGATRON_CHECKPOINT for tensors that are missing or do not fit together
 */
export function expertsOfRank(
  name: string,
  options: {
    readonly file: TorchFile;
    readonly tensors: ReadonlyMap<string, TorchTensor>;
    readonly split: TensorSplit;
    /** How many experts the rank has. The shape of a tensor with all experts does not show this. */
    readonly numExperts: number;
  },
): ExpertsOfRank {
  const { file, tensors } = options;
  const own = [...tensors].flatMap(([stored, tensor]) => {
    const experts = parseExpertTensor(stored);
    return experts?.name === name ? [{ ...experts, tensor }] : [];
  });
  const [first] = own;
  if (first === undefined) throw megatronError(file.path, `${name} is missing, which other ranks have`);
  if (first.form === 'view') return viewedExperts(name, { ...options, tensor: first.tensor });
  if (first.expert === undefined) return stackedExperts(name, { file, tensor: first.tensor });
  return separateExperts(name, { file, own });
}

/** Reads experts that are stored as separate tensors. */
function separateExperts(
  name: string,
  {
    file,
    own,
  }: {
    readonly file: TorchFile;
    readonly own: ReadonlyArray<{ readonly expert: number | undefined; readonly tensor: TorchTensor }>;
  },
): ExpertsOfRank {
  const experts = own.toSorted((one, other) => (one.expert ?? 0) - (other.expert ?? 0));
  const [{ tensor: first }] = experts as [(typeof experts)[number]];
  for (const [index, { expert, tensor }] of experts.entries()) {
    if (expert !== index) throw megatronError(file.path, `expert ${index} of its rank is missing in ${name}`);
    if (tensor.dtype === first.dtype && tensor.shape.join() === first.shape.join()) continue;
    throw megatronError(
      file.path,
      `expert ${index} of ${name} is ${tensor.dtype} [${tensor.shape.join(', ')}]`,
      {
        expected: `${first.dtype} [${first.shape.join(', ')}]`,
      },
    );
  }
  return {
    path: file.path,
    numExperts: experts.length,
    shape: first.shape,
    dtype: first.dtype,
    read: async (use) => {
      for (const [index, { tensor }] of experts.entries()) use(await file.readTensor(tensor), index);
    },
  };
}

/** Reads experts from a single tensor [E, ...]. */
function stackedExperts(
  name: string,
  { file, tensor }: { readonly file: TorchFile; readonly tensor: TorchTensor },
): ExpertsOfRank {
  const [numExperts = 0, ...shape] = tensor.shape;
  if (numExperts === 0 || shape.length === 0 || shape.includes(0)) {
    throw megatronError(file.path, `${name} has the shape [${tensor.shape.join(', ')}]`, {
      expected: '[experts, outputs, inputs]',
    });
  }
  return {
    path: file.path,
    numExperts,
    shape,
    dtype: tensor.dtype,
    read: async (use) => {
      const bytes = await file.readTensor(tensor);
      const each = bytes.length / numExperts;
      for (let expert = 0; expert < numExperts; expert++) {
        use(bytes.subarray(expert * each, (expert + 1) * each), expert);
      }
    },
  };
}

/**
 * Reads experts from a single tensor whose values are in the order [E, inputs, outputs], regardless of its
 * shape.
 */
function viewedExperts(
  name: string,
  {
    file,
    tensor,
    split,
    numExperts,
  }: {
    readonly file: TorchFile;
    readonly tensor: TorchTensor;
    readonly split: TensorSplit;
    readonly numExperts: number;
  },
): ExpertsOfRank {
  const [rows = 0, columns = 0] = tensor.shape;
  const isFirst = split !== 'columns';
  const all = isFirst ? columns : rows;
  if (tensor.shape.length !== 2 || rows * columns === 0 || all % numExperts !== 0) {
    throw megatronError(file.path, `${name} has the shape [${tensor.shape.join(', ')}]`, {
      expected: isFirst ? `[inputs, ${numExperts} * outputs]` : `[${numExperts} * inputs, outputs]`,
    });
  }
  const each = all / numExperts;
  const [numInputs, numOutputs] = isFirst ? [rows, each] : [each, columns];
  const size = dtypeBytes[tensor.dtype];
  return {
    path: file.path,
    numExperts,
    shape: [numOutputs, numInputs],
    dtype: tensor.dtype,
    read: async (use) => {
      const bytes = await file.readTensor(tensor);
      const bytesOfExpert = numInputs * numOutputs * size;
      const matrix = new Uint8Array(bytesOfExpert);
      for (let expert = 0; expert < numExperts; expert++) {
        const stored = bytes.subarray(expert * bytesOfExpert, (expert + 1) * bytesOfExpert);
        const shape = { numRows: numInputs, numColumns: numOutputs, elementBytes: size };
        transpose({ target: matrix, source: stored, ...shape });
        use(matrix, expert);
      }
    },
  };
}
