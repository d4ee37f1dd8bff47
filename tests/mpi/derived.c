/* Derived types: a column of a matrix, a structure with holes, an indexed
 * type; sent typed and received typed or plain; the holes stay as they were. */
#include "check.h"

enum { ROWS = 300, COLUMNS = 40 };

int main(int argc, char **argv)
{
    check_init(&argc, &argv, 2);
    static double matrix[ROWS][COLUMNS], plain[ROWS];
    MPI_Datatype column, pair, picked;
    MPI_Status status;
    MPI_Type_vector(ROWS, 1, COLUMNS, MPI_DOUBLE, &column);
    MPI_Type_commit(&column);
    for (int c = 0; c < COLUMNS; c++) {
        if (rank_world == 0) {
            for (int r = 0; r < ROWS; r++)
                for (int k = 0; k < COLUMNS; k++)
                    matrix[r][k] = r * 1000.0 + k;
            MPI_Send(&matrix[0][c], 1, column, 1, c, MPI_COMM_WORLD);
        } else if (rank_world == 1) {
            for (int r = 0; r < ROWS; r++)
                for (int k = 0; k < COLUMNS; k++)
                    matrix[r][k] = -1;
            if (c % 2) {
                MPI_Recv(&matrix[0][c], 1, column, 0, c, MPI_COMM_WORLD, &status);
            } else {
                MPI_Recv(plain, ROWS, MPI_DOUBLE, 0, c, MPI_COMM_WORLD, &status);
                for (int r = 0; r < ROWS; r++)
                    matrix[r][c] = plain[r];
            }
            CHECK_STATUS(status, 0, c, ROWS * sizeof(double));
            for (int r = 0; r < ROWS; r++)
                for (int k = 0; k < COLUMNS; k++)
                    CHECK(matrix[r][k] == (k == c ? r * 1000.0 + k : -1), "row %d column %d is %g",
                          r, k, matrix[r][k]);
        }
    }

    struct item {
        char letter;
        double number;
        short small;
    };
    static struct item items[2000];
    const int lens[] = {1, 1, 1};
    const MPI_Aint places[] = {offsetof(struct item, letter), offsetof(struct item, number),
                               offsetof(struct item, small)};
    const MPI_Datatype types[] = {MPI_CHAR, MPI_DOUBLE, MPI_SHORT};
    MPI_Datatype raw;
    MPI_Type_create_struct(3, lens, places, types, &raw);
    MPI_Type_create_resized(raw, 0, sizeof(struct item), &pair);
    MPI_Type_commit(&pair);
    const int counts[] = {0, 1, 3, 100, 2000};
    for (int i = 0; i < 5; i++) {
        memset(items, rank_world == 0 ? 0 : 0xee, sizeof items);
        if (rank_world == 0) {
            for (int k = 0; k < counts[i]; k++)
                items[k] = (struct item){(char)k, k * 0.5, (short)(k * 3)};
            MPI_Send(items, counts[i], pair, 1, 200 + i, MPI_COMM_WORLD);
        } else if (rank_world == 1) {
            int count;
            MPI_Recv(items, 2000, pair, 0, 200 + i, MPI_COMM_WORLD, &status);
            MPI_Get_count(&status, pair, &count);
            CHECK(count == counts[i], "%d items, not %d", count, counts[i]);
            for (int k = 0; k < count; k++) {
                CHECK(items[k].letter == (char)k && items[k].number == k * 0.5 &&
                          items[k].small == (short)(k * 3),
                      "item %d of %d", k, count);
                CHECK(((uint8_t *)&items[k])[1] == 0xee, "the hole of item %d was written", k);
            }
        }
    }

    const int blocks[] = {3, 1, 7}, at[] = {2, 9, 20};
    MPI_Type_indexed(3, blocks, at, MPI_INT, &picked);
    MPI_Type_commit(&picked);
    int numbers[30];
    for (int i = 0; i < 30; i++)
        numbers[i] = rank_world == 0 ? i : -1;
    if (rank_world == 0) {
        MPI_Send(numbers, 1, picked, 1, 300, MPI_COMM_WORLD);
    } else if (rank_world == 1) {
        MPI_Recv(numbers, 1, picked, 0, 300, MPI_COMM_WORLD, &status);
        for (int i = 0; i < 30; i++) {
            int inside = (i >= 2 && i < 5) || i == 9 || (i >= 20 && i < 27);
            CHECK(numbers[i] == (inside ? i : -1), "number %d is %d", i, numbers[i]);
        }
    }
    MPI_Type_free(&column), MPI_Type_free(&raw), MPI_Type_free(&pair), MPI_Type_free(&picked);
    return check_finish("derived");
}
