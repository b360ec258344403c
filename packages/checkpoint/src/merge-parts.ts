import { CheckpointError, UsageError } from '@mtl/errors';
import { slicesFromStored } from './boxes.js';
import { coverDefect } from './cover-defect.js';
import type { PieceRecord, ShardRecord, TensorRecord } from './manifest.js';
import type { RankPart } from './write-rank-shards.js';

/**
 * Joins what the ranks wrote into the tables of one manifest.
 *
 * @throws UsageError MTL_CHECKPOINT_COVER when ranks disagree on a tensor, or their boxes overlap or leave
 *   gaps
 * @throws CheckpointError MTL_CHECKPOINT_NOT_SHARED when a part is of another save
 */
export function mergeParts(options: { readonly parts: readonly RankPart[]; readonly token: string }): {
  readonly shards: ShardRecord[];
  readonly tensors: TensorRecord[];
} {
  const shards: ShardRecord[] = [];
  const tensors = new Map<string, { record: TensorRecord; pieces: PieceRecord[] }>();
  for (const [rank, part] of options.parts.entries()) {
    if (part.token !== options.token || part.rank !== rank) {
      throw new CheckpointError('MTL_CHECKPOINT_NOT_SHARED', `the part of rank ${rank} is of another save`, {
        remedy: 'let only one run save into a directory',
      });
    }
    for (const tensor of part.tensors) {
      const known = tensors.get(tensor.name) ?? { record: tensor, pieces: [] };
      tensors.set(tensor.name, known);
      const { record } = known;
      if (record.dtype !== tensor.dtype || record.globalShape.join() !== tensor.globalShape.join()) {
        throw new UsageError(
          'MTL_CHECKPOINT_COVER',
          `rank ${rank} saves ${tensor.name} as ${tensor.dtype} [${tensor.globalShape.join(', ')}]`,
          { expected: `${record.dtype} [${record.globalShape.join(', ')}] as other ranks do` },
        );
      }
      known.pieces.push(...tensor.pieces.map((piece) => ({ ...piece, shard: piece.shard + shards.length })));
    }
    shards.push(...part.shards);
  }
  const records = [...tensors.values()].map(({ record, pieces }) => ({ ...record, pieces }));
  for (const { name, globalShape, pieces } of records) {
    const defect = coverDefect(
      globalShape,
      pieces.map((piece) => slicesFromStored(piece.slices)),
    );
    if (defect === undefined) continue;
    throw new UsageError(
      'MTL_CHECKPOINT_COVER',
      `the saved boxes of ${name} do not make up the tensor: ${defect}`,
      {
        expected: 'every element from exactly one rank',
        remedy: 'give copies on further ranks a replica number other than 0',
      },
    );
  }
  return { shards, tensors: records };
}
