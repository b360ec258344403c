import type { Tokenizer } from '@mtl/data';
import type { WriteHuggingFaceBertOptions } from '@mtl/formats';

/** The tokenizer settings of a BERT in a Hugging Face directory. */
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
