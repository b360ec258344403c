const magic = Buffer.from('MMIDIDX\0\0', 'latin1');

/** Element types by their code in the index, as far as tokens use them. */
const elements: Readonly<
  Record<number, { readonly bytes: number; at(bin: Buffer, position: number): number }>
> = {
  4: { bytes: 4, at: (bin, position) => bin.readInt32LE(position) },
  8: { bytes: 2, at: (bin, position) => bin.readUInt16LE(position) },
};

function check(holds: boolean, rule: string): asserts holds {
  if (!holds) throw new Error(`not Megatron's format: ${rule}`);
}

/**
 * Reads an .idx and its .bin by the description of Megatron-LM's format alone, sharing no code with
 * @mtl/data, and refuses every departure from it: Megatron's reader takes counts and offsets as they are and
 * would read other tokens.
 *
 * @param vocabularySize decides the element type: uint16 below 65,500, else int32
 * @returns documents of sequences of tokens
 */
export function readMegatronDataset(files: {
  readonly idx: Buffer;
  readonly bin: Buffer;
  readonly vocabularySize: number;
}): number[][][] {
  const { idx, bin, vocabularySize } = files;
  check(idx.subarray(0, 9).equals(magic), 'nine bytes of magic');
  check(idx.readBigUInt64LE(9) === 1n, 'version 1');
  check(
    idx[17] === (vocabularySize < 65_500 ? 8 : 4),
    'uint16 (8) below 65,500 tokens, int32 (4) from there on',
  );
  const { bytes, at } = elements[idx[17]]!;
  const [numSequences, numBoundaries] = [Number(idx.readBigUInt64LE(18)), Number(idx.readBigUInt64LE(26))];
  check(
    idx.length === 34 + 12 * numSequences + 8 * numBoundaries,
    'lengths, pointers, documents and nothing else',
  );
  const pointersAt = 34 + 4 * numSequences;
  const documentsAt = pointersAt + 8 * numSequences;
  const sequences: number[][] = [];
  let pointer = 0;
  for (let index = 0; index < numSequences; index++) {
    const length = idx.readInt32LE(34 + 4 * index);
    check(length > 0, 'a sequence has a token');
    check(
      idx.readBigInt64LE(pointersAt + 8 * index) === BigInt(pointer),
      'a pointer is the sum of bytes before it',
    );
    check(pointer + length * bytes <= bin.length, 'sequences end within the .bin');
    sequences.push(Array.from({ length }, (_, token) => at(bin, pointer + token * bytes)));
    pointer += length * bytes;
  }
  check(pointer === bin.length, 'the .bin ends with the last sequence');
  const boundaries = Array.from({ length: numBoundaries }, (_, index) =>
    Number(idx.readBigInt64LE(documentsAt + 8 * index)),
  );
  check(
    boundaries[0] === 0 && boundaries.at(-1) === numSequences,
    'documents begin at 0 and end with the sequences',
  );
  return boundaries.slice(1).map((end, index) => {
    check(end >= boundaries[index]!, 'documents are in order');
    return sequences.slice(boundaries[index], end);
  });
}
