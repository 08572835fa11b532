// nobody
