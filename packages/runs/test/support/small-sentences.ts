/** Documents of sentences (nine each) whose words predict each other: the animal determines the place. */
export function smallSentences({ numDocuments = 120, numSentences = 9 } = {}): string[] {
  const animals = ['cat', 'dog', 'hen', 'fox', 'cow'];
  const places = ['mat', 'sofa', 'roof', 'hill', 'barn'];
  const sentence = (index: number): string =>
    `The ${animals[index % 5]} number ${index % 10} sat on the ${places[index % 5]}.`;
  return Array.from({ length: numDocuments }, (_, document) =>
    Array.from({ length: numSentences }, (_, index) => sentence(document * 7 + index)).join(' '),
  );
}
