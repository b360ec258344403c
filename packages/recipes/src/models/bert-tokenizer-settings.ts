import type { Tokenizer } from '@mtl/data';
import type { WriteHuggingFaceBertOptions } from '@mtl/models';

/** What a Hugging Face directory of a BERT says of its tokenizer. */
export function bertTokenizerSettings({
  options,
  padId,
}: Pick<Tokenizer, 'options' | 'padId'>): Pick<WriteHuggingFaceBertOptions, 'paddingToken' | 'lowersCase'> {
  const type = options?.type;
  const isWordPiece = type === 'BertWordPieceLowerCase' || type === 'BertWordPieceCase';
  return {
    ...(padId === undefined ? {} : { paddingToken: padId }),
    ...(isWordPiece ? { lowersCase: type === 'BertWordPieceLowerCase' } : {}),
  };
}
