const library = require('safetensors-mmap');
const { testLibrary } = require('./behaviour.cjs');

testLibrary(library);
