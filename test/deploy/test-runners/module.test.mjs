import * as library from 'safetensors-mmap';
import { testLibrary } from './behaviour.cjs';

testLibrary(library);
